package cli

import (
	"time"

	"github.com/rs/zerolog"
)

// Logger returns a log on stderr. The default format is text on a terminal and JSON elsewhere.
// --verbose and --quiet override the level.
func (a *App) Logger(level, format string) zerolog.Logger {
	lv, err := zerolog.ParseLevel(level)
	switch {
	case a.Verbose:
		lv = zerolog.DebugLevel
	case a.quiet:
		lv = zerolog.ErrorLevel
	case err != nil:
		lv = zerolog.InfoLevel // the flag accepts only known words
	}
	w := a.faults
	if format == "text" || format == "auto" && terminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !terminal(w)}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(lv).With().Timestamp().Logger()
}
