package gateway

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
)

const (
	placesPerProcessor = 2   // one request plans while another waits for the index
	mostWaiting        = 256 // requests for each place; more would wait for longer than clients do

	// measuringPlaces is how many groups of batches are measured at the same time. Each takes a part of the budget.
	measuringPlaces = 2
)

// places bounds the requests that plan, locate and lay out at the same time: that takes processor time, and one request
// can ask for a minute of it. A request holds a place for one batch at a time, so a long one lets others in between.
type places struct {
	free    chan struct{} // one token for each request that has a place
	waiting *atomic.Int64
}

func newPlaces(n int) places {
	return places{free: make(chan struct{}, n), waiting: new(atomic.Int64)}
}

// planningPlaces is how many requests plan at the same time.
func planningPlaces() int { return placesPerProcessor * runtime.GOMAXPROCS(0) }

// take waits for a place. It refuses where too many requests wait.
func (p places) take(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.free }
	select {
	case p.free <- struct{}{}:
		return leave, nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > mostWaiting*int64(cap(p.free)) {
		return nil, overloaded("too many requests wait to be planned")
	}
	select {
	case p.free <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to be planned: %w", ctx.Err())
	}
}
