package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

const (
	placesPerProcessor = 2   // one request plans while another waits for the index
	mostWaiting        = 256 // requests for each place; more would wait for longer than clients do

	// MeasuringPlaces is how many groups of batches are measured at the same time. Each takes a part of the budget.
	MeasuringPlaces = 2
)

// ErrCrowded says that too many requests wait for a place.
var ErrCrowded = errors.New("too many requests wait to be planned")

// Places bounds the requests that plan, locate and lay out at the same time: that takes processor time, and one request
// can ask for a minute of it. A request holds a place for one batch at a time, so a long one lets others in between.
type Places struct {
	free    chan struct{} // one token for each request that has a place
	waiting *atomic.Int64
}

// NewPlaces returns n free places.
func NewPlaces(n int) Places {
	return Places{free: make(chan struct{}, n), waiting: new(atomic.Int64)}
}

// PlanningPlaces is how many requests plan at the same time.
func PlanningPlaces() int { return placesPerProcessor * runtime.GOMAXPROCS(0) }

// Take waits for a place. It refuses where too many requests wait.
func (p Places) Take(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.free }
	select {
	case p.free <- struct{}{}:
		return leave, nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > mostWaiting*int64(cap(p.free)) {
		return nil, ErrCrowded
	}
	select {
	case p.free <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to be planned: %w", ctx.Err())
	}
}
