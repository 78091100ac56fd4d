package datapath

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/internal/tracing"
)

// gate bounds how many reads run side by side: each takes a place. A request's read waits only for other
// requests' reads, so for a moment up to twice the limit may run. A read made ahead starts only while fewer
// than the limit run in all.
type gate struct {
	idle func() // called when a place is free that no request waits for; must not block

	mu      sync.Mutex // guards what follows
	limit   int
	demand  int             // requests' reads under way
	ahead   int             // reads under way that were made ahead
	paced   int             // reads under way whose store holds them back
	warm    int             // those of ahead that warm: no reader is known to come soon for what they bring
	starved bool            // some reader finds no place for what it needs soon
	queue   []chan struct{} // requests, in order of arrival
	later   []chan struct{} // those who warm, likewise

	climb *climb // chooses the limit; nil: the limit stays
	round round  // what the climb has measured at this limit
	below *gate  // a gate whose limit is kept one less than this one's; nil: there is none
}

// enter waits for a place for a request's read.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if g.demand < g.limit {
		g.demand++
		g.note()
		g.mu.Unlock()
		return nil
	}
	ctx, span := tracing.Start(ctx, "wait for a place")
	err := g.wait(ctx, &g.queue, g.leave)
	span.Ended(err)
	return err
}

// enterWarm waits for a place for a read that warms.
func (g *gate) enterWarm(ctx context.Context) error {
	g.mu.Lock()
	return g.wait(ctx, &g.later, func() { g.leaveWarm(true) })
}

// wait waits for a turn in a queue. leave gives a place back that came at the moment at which ctx ended. The caller holds mu,
// which is unlocked on return.
func (g *gate) wait(ctx context.Context, queue *[]chan struct{}, leave func()) error {
	turn := make(chan struct{})
	*queue = append(*queue, turn)
	g.admit()
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(*queue, turn)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 {
		leave()
	}
	return context.Cause(ctx)
}

// enterAhead takes a place for a read made ahead, if there is one now and fewer than most of them are under way.
func (g *gate) enterAhead(most int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if full := g.demand+g.ahead >= g.limit; full || g.ahead >= most {
		g.round.wanted = g.round.wanted || full
		return false
	}
	g.ahead++
	g.note()
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	g.demand--
	asked := len(g.queue) > 0
	g.ended()
	g.mu.Unlock()
	if !asked {
		g.idle()
	}
}

// leaveAhead gives the place of a read made ahead back. After a read that failed nobody is told: the next one
// ahead would fail too, and at once.
func (g *gate) leaveAhead(failed bool) {
	g.mu.Lock()
	g.ahead--
	g.ended()
	g.mu.Unlock()
	if !failed {
		g.idle()
	}
}

// leaveWarm gives the place of a read that warms back.
func (g *gate) leaveWarm(failed bool) {
	g.mu.Lock()
	g.warm--
	g.mu.Unlock()
	g.leaveAhead(failed)
}

// starve says whether some reader finds no place for what it needs soon.
func (g *gate) starve(starved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starved = starved
	g.admit()
}

// full reports whether there is no place for a read ahead, nor one that those who warm would have to leave to it.
func (g *gate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.demand+g.ahead >= g.limit && (g.warm == 0 || g.starved)
}

// places returns how many reads may run side by side now.
func (g *gate) places() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

// admit gives free places to those who wait: to requests first, and then to those who warm, but half of them at most
// while a reader would use the others. The caller holds mu.
func (g *gate) admit() {
	for len(g.queue) > 0 && g.demand < g.limit {
		g.demand++
		close(g.queue[0])
		g.queue = g.queue[1:]
	}
	most := g.limit
	if g.starved {
		most = max(g.limit/2, 1)
	}
	for len(g.later) > 0 && g.demand+g.ahead < g.limit && g.warm < most {
		g.ahead, g.warm = g.ahead+1, g.warm+1
		close(g.later[0])
		g.later = g.later[1:]
	}
	g.note()
}
