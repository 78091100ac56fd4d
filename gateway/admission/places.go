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
	mostWaiting        = 256 // maximum waiting requests per place; with more, requests would wait longer than clients do

	// MeasuringPlaces is the number of groups of batches that may be measured concurrently. Each
	// needs a part of the budget.
	MeasuringPlaces = 2
)

// ErrCrowded is returned when too many requests wait for a place.
var ErrCrowded = errors.New("too many requests wait for planning")

// Places limits the number of requests that plan, locate and lay out concurrently. These steps need
// processor time, up to a minute for one request. A request holds a place for one batch at a time,
// so that other requests can run between the batches of a long one.
type Places struct {
	free    chan struct{} // one token per request with a place
	waiting *atomic.Int64
}

// NewPlaces returns n free places.
func NewPlaces(n int) Places {
	return Places{free: make(chan struct{}, n), waiting: new(atomic.Int64)}
}

// PlanningPlaces returns the number of requests that may plan concurrently.
func PlanningPlaces() int { return placesPerProcessor * runtime.GOMAXPROCS(0) }

// Take waits for a place. It fails if too many requests are waiting.
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
		return nil, fmt.Errorf("wait for planning: %w", ctx.Err())
	}
}
