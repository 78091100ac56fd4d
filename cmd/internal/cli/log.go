package cli

import (
	"time"

	"github.com/rs/zerolog"
)

// Logger writes to stderr: for people on a terminal, as JSON for machines, unless told which. --verbose and --quiet go
// before the level.
func (a *App) Logger(level, format string) zerolog.Logger {
	lv, err := zerolog.ParseLevel(level)
	switch {
	case a.Verbose:
		lv = zerolog.DebugLevel
	case a.quiet:
		lv = zerolog.ErrorLevel
	case err != nil:
		lv = zerolog.InfoLevel // the flag admits known words only
	}
	w := a.faults
	if format == "text" || format == "auto" && terminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !terminal(w)}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(lv).With().Timestamp().Logger()
}
