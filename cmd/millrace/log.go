package main

import (
	"time"

	"github.com/rs/zerolog"
)

// logger writes to stderr: for people on a terminal, as JSON for machines, unless told which.
func (a *app) logger(level, format string) zerolog.Logger {
	lv, err := zerolog.ParseLevel(level)
	if err != nil {
		lv = zerolog.InfoLevel // the flag admits known words only
	}
	w := a.stderr
	if format == "text" || format == "auto" && terminal(a.stderr) {
		w = zerolog.ConsoleWriter{Out: a.stderr, TimeFormat: time.TimeOnly, NoColor: !terminal(a.stderr)}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(lv).With().Timestamp().Logger()
}
