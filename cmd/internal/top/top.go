// Package top shows on one screen what gateways do, and what limits them.
//
// The parts lead from an answer to a line of the screen, and none but the first and the last know a network or a terminal:
//
//	Fleet    asks each gateway for /v1/stats, and never waits for one that does not answer   ask.go
//	History  compares two answers of a gateway, and says rates                               report.go
//	Report   is what is known at a moment: gateways, ranks, sums; it is what --json prints   report.go
//	draw     makes lines of text of a report: the head, a table                              screen.go, table.go
//	model    takes keys and reports, and says what is on the screen (bubbletea's form)       model.go
//
// What a gateway says may come from anybody who has named a dataset. It reaches the screen through clean alone.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Terminal is where the screen is.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	Env []string // as of os.Environ: TERM, NO_COLOR
}

// Watch shows the gateways until the user ends it, or ctx ends. If all of them refuse at the first look, it shows nothing and returns why.
func Watch(ctx context.Context, f *Fleet, every time.Duration, t Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func() []Look { return f.Ask(ctx, patience) }
	begun := ask()
	if err := silent(begun); err != nil && !errors.Is(err, errLate) && ctx.Err() == nil {
		return err
	}
	m := newModel(every, begun, ask)
	// The process has a handler of signals already, which ends ctx.
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(t.Env), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil // to be ended is the normal end
	}
	if err != nil {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// Once asks the gateways twice, so that there are rates, and returns what they said. If none answers the first look, it returns why at once.
func Once(ctx context.Context, f *Fleet, every time.Duration) (Report, error) {
	var h History
	looks := f.Ask(ctx, attemptTime)
	if err := silent(looks); err != nil {
		return Report{}, err
	}
	h.Next(looks)
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	looks = f.Ask(ctx, attemptTime)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	return h.Next(looks), nil
}

// silent returns why no gateway answers, and what to do; nil if one answers. It is errLate if a gateway may still answer.
func silent(looks []Look) error {
	if len(looks) == 0 {
		return errors.New("no gateway is known")
	}
	first := looks[0].Err
	for _, l := range looks {
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
