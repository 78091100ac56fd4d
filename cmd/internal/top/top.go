// Package top shows the activity and the bottlenecks of gateways on one screen.
//
// Data pass through these parts. Only the first uses the network, and only the last the terminal:
//
//	Fleet    requests /v1/stats from each gateway, and waits for none that is slow      ask.go
//	History  computes rates from two answers of a gateway                              report.go
//	Report   has gateways, ranks and totals at one moment; --json prints it            report.go
//	lines    are the text of a report: the head and a table                            screen.go, table.go
//	model    handles keys and reports, and returns the screen, as bubbletea requires   model.go
//
// A gateway's answer contains names that any user may choose. They reach the screen only through clean.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Terminal is the terminal that shows the screen.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	Env []string // like os.Environ: TERM, NO_COLOR
}

// Watch shows the gateways until the user quits or ctx ends. If the first poll of all of them fails, it returns the error.
func Watch(ctx context.Context, f *Fleet, every time.Duration, t Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func() []Poll { return f.Ask(ctx, patience) }
	begun := ask()
	if err := silent(begun); err != nil && !errors.Is(err, errLate) && ctx.Err() == nil {
		return err
	}
	m := newModel(every, begun, ask)
	// The process already handles signals: they cancel ctx.
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(t.Env), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil // the normal end
	}
	if err != nil {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// Once polls the gateways twice, to compute rates. If no gateway answers the first poll, it returns the error at once.
func Once(ctx context.Context, f *Fleet, every time.Duration) (Report, error) {
	var h History
	polls := f.Ask(ctx, attemptTime)
	if err := silent(polls); err != nil {
		return Report{}, err
	}
	h.Next(polls)
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	polls = f.Ask(ctx, attemptTime)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	return h.Next(polls), nil
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
