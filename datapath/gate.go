package datapath

import (
	"context"
	"sync"
)

// gate lets a fixed number of store reads run. A request's read waits only for other
// requests' reads; one made ahead starts only while there is room beside all of them.
type gate struct {
	limit int
	idle  func() // called when a place is free that no request waits for; must not block

	mu     sync.Mutex
	demand int
	ahead  int
	queue  []chan struct{} // requests, in order of arrival
}

// enter waits for a place for a request's read.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if g.demand < g.limit {
		g.demand++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, c := range g.queue {
		if c == turn {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			return context.Cause(ctx)
		}
	}
	g.pass() // the place came at the same moment
	return context.Cause(ctx)
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

// pass gives a request's place to the next one, or back. The caller holds mu.
func (g *gate) pass() {
	if len(g.queue) > 0 {
		close(g.queue[0])
		g.queue = g.queue[1:]
		return
	}
	g.demand--
	g.idle()
}

// enterAhead takes a place for a read made ahead, if there is one now and fewer than most of them are under way.
func (g *gate) enterAhead(most int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ahead >= most || g.demand+g.ahead >= g.limit {
		return false
	}
	g.ahead++
	return true
}

// leaveAhead gives such a place back. After a read that failed nobody is told: the next one ahead would
// fail too, and at once.
func (g *gate) leaveAhead(failed bool) {
	g.mu.Lock()
	g.ahead--
	g.mu.Unlock()
	if !failed {
		g.idle()
	}
}
