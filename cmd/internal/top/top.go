// Package top shows the activity and the bottlenecks of gateways on one screen.
//
// Data pass through these parts. Only the first uses the network, and only Watch the terminal:
//
//	Fleet    requests /v1/stats from each gateway, and waits for none that is slow     fleet.go
//	History  computes rates from two answers of a gateway                              report.go
//	Report   has gateways, ranks and totals at one moment; --json prints it            report.go
//	lines    lays out a report as text                                                 screen.go, table.go
//	Watch    redraws the screen of a terminal                                          top.go
//
// A gateway's answer contains names that any user may choose. They reach the screen only through clean.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Sequences of a terminal: they show an empty screen without a cursor, and restore the terminal.
const (
	openScreen  = "\x1b[?1049h\x1b[?25l"
	closeScreen = "\x1b[?25h\x1b[?1049l"
)

// Watch redraws the screen of a terminal until ctx ends. If no gateway answers the first poll, it returns
// the error and draws nothing.
func Watch(ctx context.Context, f *Fleet, every time.Duration, terminal *os.File, color bool) error {
	var failed error
	begin := openScreen
	err := repeat(ctx, f, every, patience, func(r *Report) bool {
		width, height := 80, 24
		if size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
			width, height = int(size.Col), int(size.Row)
		}
		_, failed = io.WriteString(terminal, begin+r.screen(width, height, color))
		begin = ""
		return failed == nil
	})
	if begin == "" {
		io.WriteString(terminal, closeScreen) //nolint:errcheck // the first error counts
	}
	if ctx.Err() != nil {
		return nil // the normal end
	}
	return cmp.Or(failed, err)
}

// Once polls the gateways twice, to compute rates. If no gateway answers the first poll, it returns the error at once.
func Once(ctx context.Context, f *Fleet, every time.Duration) (last Report, err error) {
	polls := 0
	err = repeat(ctx, f, every, attemptTime, func(r *Report) bool {
		last = *r
		polls++
		return polls < 2
	})
	return last, err
}

// repeat polls the gateways and passes each report to show, until show returns false or ctx ends. It waits
// at most limit for answers. If no gateway answers the first poll, it returns the error.
func repeat(ctx context.Context, f *Fleet, every, limit time.Duration, show func(*Report) bool) error {
	var h History
	for first := true; ; first = false {
		polls := f.Poll(ctx, limit)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := silent(polls); first && err != nil && (limit > patience || !errors.Is(err, errLate)) {
			return err
		}
		if r := h.Next(polls); !show(&r) {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// silent returns reason and cure if no gateway answers, and nil if one does. It is errLate if a gateway may still answer.
func silent(polls []Poll) error {
	if len(polls) == 0 {
		return errors.New("no gateway found")
	}
	first := polls[0].Err
	for _, l := range polls {
		switch {
		case l.Err == nil:
			return nil
		case errors.Is(l.Err, errLate):
			first = l.Err
		}
	}
	_, limits := fault(first)
	return fmt.Errorf("%w: %s", first, limits.Do)
}
