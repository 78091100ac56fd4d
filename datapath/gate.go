package datapath

import (
	"context"
	"slices"
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
	later  []chan struct{} // reads ahead that somebody waits for, likewise
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
	if !remove(&g.queue, turn) {
		g.pass() // the place came at the same moment
	}
	return context.Cause(ctx)
}

// remove takes a turn out of a queue, and reports whether it was still there.
func remove(queue *[]chan struct{}, turn chan struct{}) bool {
	i := slices.Index(*queue, turn)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	return i >= 0
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
	g.offer()
	g.idle()
}

// offer gives free places to reads ahead that somebody waits for. The caller holds mu.
func (g *gate) offer() {
	for len(g.later) > 0 && g.demand+g.ahead < g.limit {
		g.ahead++
		close(g.later[0])
		g.later = g.later[1:]
	}
}

// waitAhead waits for a place for a read made ahead.
func (g *gate) waitAhead(ctx context.Context) error {
	if g.enterAhead(g.limit) {
		return nil
	}
	turn := make(chan struct{})
	g.mu.Lock()
	g.later = append(g.later, turn)
	g.offer()
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !remove(&g.later, turn) {
		g.ahead-- // the place came at the same moment
		g.offer()
	}
	return context.Cause(ctx)
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
	g.offer()
	g.mu.Unlock()
	if !failed {
		g.idle()
	}
}
