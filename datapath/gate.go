package datapath

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/internal/tracing"
)

// gate bounds the number of concurrent reads: each read takes a place. A request's read waits only
// for other requests' reads, so up to twice the limit may run for a moment. A prefetch starts only
// while fewer reads than the limit run in total. Each store has an equal share of the places,
// beyond the limit if other stores use more than their share. So a store that hangs does not block
// requests to other stores.
type gate struct {
	idle func() // called when a place is free and no request waits for it; must not block

	mu      sync.Mutex // guards the fields below
	limit   int
	demand  int           // running reads of requests
	ahead   int           // running prefetches, including warming reads
	paced   int           // running reads that their store delays
	warm    int           // running warming reads, counted in ahead: no known reader needs their chunks soon
	starved bool          // a reader found no place for a chunk that it needs soon
	queue   []waiter      // waiting reads of requests, in the order of arrival
	later   []waiter      // waiting warming reads, in the order of arrival
	stores  map[any]share // requests' reads, by store; only stores with a running or waiting read

	climb *climb // chooses the limit; nil: the limit is fixed
	round round  // measurement at the current limit
	below *gate  // another gate whose limit is kept one below this gate's; nil: none
}

// waiter is a read that waits for a place.
type waiter struct {
	turn  chan struct{} // closed when the read has its place
	store any
}

// share is the number of requests' reads of one store.
type share struct{ running, waiting int }

// enter waits for a place for a request's read of a store. store is any comparable value that
// identifies the store.
func (g *gate) enter(ctx context.Context, store any) error {
	g.mu.Lock()
	if g.free(store) {
		g.take(store)
		g.note()
		g.mu.Unlock()
		return nil
	}
	ctx, span := tracing.Start(ctx, "wait for a place")
	g.count(store, share{waiting: 1})
	err := g.wait(ctx, &g.queue, store, func() { g.leave(store) })
	span.Ended(err)
	return err
}

// enterWarm waits for a place for a warming read.
func (g *gate) enterWarm(ctx context.Context) error {
	g.mu.Lock()
	return g.wait(ctx, &g.later, nil, func() { g.leaveWarm(false) })
}

// free reports whether a request's read of a store may run now. The caller holds mu.
func (g *gate) free(store any) bool {
	if g.demand < g.limit {
		return true
	}
	own, known := g.stores[store]
	sharing := len(g.stores)
	if !known {
		sharing++
	}
	return own.running < max(g.limit/sharing, 1)
}

// take gives a place to a request's read of a store. The caller holds mu.
func (g *gate) take(store any) {
	g.demand++
	g.count(store, share{running: 1})
}

// count adds to the share of a store. The caller holds mu.
func (g *gate) count(store any, more share) {
	if g.stores == nil {
		g.stores = map[any]share{}
	}
	has := g.stores[store]
	has.running, has.waiting = has.running+more.running, has.waiting+more.waiting
	if g.stores[store] = has; has == (share{}) {
		delete(g.stores, store)
	}
}

// wait waits for a turn in a queue. It calls leave to return a place that was assigned at the
// moment ctx ended. The caller holds mu, which is unlocked on return.
func (g *gate) wait(ctx context.Context, queue *[]waiter, store any, leave func()) error {
	turn := make(chan struct{})
	*queue = append(*queue, waiter{turn, store})
	g.admit()
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.IndexFunc(*queue, func(w waiter) bool { return w.turn == turn })
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
		if queue == &g.queue {
			g.count(store, share{waiting: -1})
		}
	}
	g.mu.Unlock()
	if i < 0 {
		leave()
	}
	return context.Cause(ctx)
}

// enterAhead takes a place for a prefetch if one is free now, and fewer than most prefetches are
// running.
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

func (g *gate) leave(store any) {
	g.mu.Lock()
	g.demand--
	g.count(store, share{running: -1})
	awaited := len(g.queue) > 0
	g.ended()
	g.mu.Unlock()
	if !awaited {
		g.idle()
	}
}

// leaveAhead returns the place of a prefetch. After a failed read it does not call idle: the next
// prefetch would fail too, and at once.
func (g *gate) leaveAhead(failed bool) {
	g.mu.Lock()
	g.ahead--
	g.ended()
	g.mu.Unlock()
	if !failed {
		g.idle()
	}
}

// leaveWarm returns the place of a warming read.
func (g *gate) leaveWarm(failed bool) {
	g.mu.Lock()
	g.warm--
	g.mu.Unlock()
	g.leaveAhead(failed)
}

// starve sets whether a reader found no place for a chunk that it needs soon.
func (g *gate) starve(starved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starved = starved
	g.admit()
}

// full reports whether no place is free for a prefetch and no warming read would have to give up
// its place for one.
func (g *gate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.demand+g.ahead >= g.limit && (g.warm == 0 || g.starved)
}

// places returns the current limit on concurrent reads.
func (g *gate) places() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

// admit assigns free places to waiters: first to requests, then to warming reads. While a reader is
// starved, warming reads get at most half of the places. The caller holds mu.
func (g *gate) admit() {
	for len(g.queue) > 0 && g.demand < g.limit {
		g.admitted(g.queue[0])
		g.queue = g.queue[1:]
	}
	if len(g.stores) > 1 { // with one store, all reads in the queue are of the store that holds the places
		g.queue = slices.DeleteFunc(g.queue, g.admitted)
	}
	most := g.limit
	if g.starved {
		most = max(g.limit/2, 1)
	}
	for len(g.later) > 0 && g.demand+g.ahead < g.limit && g.warm < most {
		g.ahead, g.warm = g.ahead+1, g.warm+1
		close(g.later[0].turn)
		g.later = g.later[1:]
	}
	g.note()
}

// admitted assigns a place to a waiting read if one is free for its store. The caller holds mu.
func (g *gate) admitted(w waiter) bool {
	if !g.free(w.store) {
		return false
	}
	g.count(w.store, share{waiting: -1})
	g.take(w.store)
	close(w.turn)
	return true
}
