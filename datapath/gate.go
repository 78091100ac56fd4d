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

	mu      sync.Mutex // guards what follows
	demand  int
	ahead   int
	warm    int             // of ahead, those that nobody is known to come for soon
	starved bool            // some reader finds no place for what it needs soon
	queue   []chan struct{} // requests, in order of arrival
	later   []chan struct{} // those who warm, likewise
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
	return g.wait(ctx, &g.queue, turn, g.pass)
}

// wait waits for a turn in a queue. back gives a place back that came at the moment at which ctx ended; it is called with mu.
func (g *gate) wait(ctx context.Context, queue *[]chan struct{}, turn chan struct{}, back func()) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(*queue, turn); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	} else {
		back()
	}
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
	g.offer()
	g.idle()
}

// offer gives free places to those who warm: half of them at most while a reader would use the others. The caller holds mu.
func (g *gate) offer() {
	most := g.limit
	if g.starved {
		most = max(g.limit/2, 1)
	}
	for len(g.later) > 0 && g.demand+g.ahead < g.limit && g.warm < most {
		g.ahead, g.warm = g.ahead+1, g.warm+1
		close(g.later[0])
		g.later = g.later[1:]
	}
}

// starve says whether some reader finds no place for what it needs soon.
func (g *gate) starve(starved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starved = starved
	g.offer()
}

// enterWarm waits for a place for a read that warms.
func (g *gate) enterWarm(ctx context.Context) error {
	turn := make(chan struct{})
	g.mu.Lock()
	g.later = append(g.later, turn)
	g.offer()
	g.mu.Unlock()
	return g.wait(ctx, &g.later, turn, func() {
		g.ahead, g.warm = g.ahead-1, g.warm-1
		g.offer()
	})
}

// leaveWarm gives such a place back.
func (g *gate) leaveWarm(failed bool) {
	g.mu.Lock()
	g.warm--
	g.mu.Unlock()
	g.leaveAhead(failed)
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

// full reports whether there is no place for a read ahead, nor one that those who warm would have to leave to it.
func (g *gate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.demand+g.ahead >= g.limit && (g.warm == 0 || g.starved)
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
