package cli

import (
	"time"

	"github.com/rs/zerolog"
)

// Logger writes to stderr: for people on a terminal, as JSON for machines, unless told which.
func (a *App) Logger(level, format string) zerolog.Logger {
	lv, err := zerolog.ParseLevel(level)
	if err != nil {
		lv = zerolog.InfoLevel // the flag admits known words only
	}
	w := a.Stderr
	if format == "text" || format == "auto" && terminal(a.Stderr) {
		w = zerolog.ConsoleWriter{Out: a.Stderr, TimeFormat: time.TimeOnly, NoColor: !terminal(a.Stderr)}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(lv).With().Timestamp().Logger()
}
