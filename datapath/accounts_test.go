package datapath

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/lookahead"
)

// finish closes a path and fails the test unless everything that was allocated has been released.
func finish(tb testing.TB, p *Path) {
	tb.Helper()
	p.Close()
	p.idle(tb, "closed")
	c := p.cache.Stats()
	for what, got := range map[string]int64{
		"cached bytes": c.Bytes, "free bytes of slots": c.FreeBytes, "bytes of the budget": p.budget.InUse(), "bytes of hot samples": p.hot.held(),
		"bytes of tables": p.tables.Bytes(), "readers": p.following(), "samples of extracts": p.extracted(),
	} {
		if got != 0 {
			tb.Errorf("closed: got %d %s, want none", got, what)
		}
	}
	if got := p.Stats(); got.BudgetPeak > got.BudgetTotal {
		tb.Errorf("got a peak of %d bytes in a budget of %d", got.BudgetPeak, got.BudgetTotal)
	}
}

// idle fails the test if a resource is held that only running reads and open bodies may hold.
func (p *Path) idle(tb testing.TB, when string) {
	tb.Helper()
	for what, got := range p.taken() {
		if got != 0 {
			tb.Errorf("%s: got %d %s, want none", when, got, what)
		}
	}
}

// taken returns the resources that running reads and open bodies hold.
func (p *Path) taken() map[string]int64 {
	c := p.cache.Stats()
	held := map[string]int64{
		"open leases": c.OpenLeases, "active loads": c.LoadsActive, "waits for memory": int64(p.budget.Waiting()),
		"reads of first batches": p.ownReads.Load(), "turns to decode": 1 - int64(len(p.decoding.kept)), "uses of sources": p.uses(),
	}
	if !p.askLimit.bytes.TryAcquire(p.askLimit.max) {
		held["turns to ask owners"] = 1
	} else {
		p.askLimit.bytes.Release(p.askLimit.max)
	}
	p.flights.Range(func(any, any) bool { held["reads ahead"]++; return true })
	p.ahead.mu.Lock()
	held["bytes of runs"], held["ranks with runs"] = p.ahead.held, int64(len(p.ahead.ranks))
	p.ahead.mu.Unlock()
	gates := map[string]*gate{"store": p.gate, "first batches": p.first, "samples that are objects": p.lone}
	if p.disk != nil {
		gates["disk"] = &p.disk.gate
	}
	for name, g := range gates {
		for what, n := range g.holdings() {
			held[what+" in the gate of "+name] = int64(n)
		}
	}
	return held
}

// holdings counts the places of a gate that are in use, and the reads that wait for one.
func (g *gate) holdings() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return map[string]int{
		"places of requests": g.demand, "places of reads ahead": g.ahead, "places of warming reads": g.warm, "paced reads": g.paced,
		"waiting requests": len(g.queue), "waiting warming reads": len(g.later), "shares of stores": len(g.stores),
	}
}

// uses counts the uses of all open sources.
func (p *Path) uses() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		n += s.uses.open.Load()
	}
	return n
}

// extracted returns the number of samples in extracts, counted in the map of their locations.
func (p *Path) extracted() int64 {
	p.extracts.mu.Lock()
	defer p.extracts.mu.Unlock()
	return int64(len(p.extracts.samples))
}

// following returns the number of open sources with a reader that is not forgotten after an hour of
// silence, because a read of it has not ended.
func (p *Path) following() (n int64) {
	p.readers.Forget(time.Now().Add(time.Hour))
	for _, s := range p.open {
		for chunk := range s.index.Chunks() {
			if p.readers.NextUse(s, chunk).In != lookahead.Never {
				n++
				break
			}
		}
	}
	return n
}
