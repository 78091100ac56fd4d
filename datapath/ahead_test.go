package datapath

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// A reader that has gone is forgotten when anybody reads, also one who follows no order, and what it came for can go.
func TestReaderThatHasGoneIsForgotten(t *testing.T) {
	d := newDataset(t, 51, same(400, 3000), 10, 1<<20) // 40 chunks
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20)})
		s := p.Open(d.index, d.store, "set/")
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		read := func(at shuffle.Cursor, sample uint64) {
			body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{sample}))
			must(t, err)
			body.Close()
			synctest.Wait()
		}
		plan := d.plan(t, shuffle.None, 0)
		read(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 1, BatchSize: 1}, 0)
		p.cache.Reclaim(p.budget.Total(), false)
		if !s.resident(0) {
			t.Error("a chunk went that its reader comes for again")
		}
		time.Sleep(31 * time.Second) // the bubble's clock: longer than one who asked once is waited for
		read(shuffle.Cursor{}, 395)
		p.cache.Reclaim(p.budget.Total(), false)
		if s.resident(0) {
			t.Error("a chunk stayed whose reader has gone")
		}
		if got := p.readers.Needs(time.Now()); len(got) != 0 {
			t.Errorf("got %d chunks to fetch ahead, want none", len(got))
		}
		stop()
		run.Wait()
	})
}

// A reader that the store lets wait has not gone, however long that takes.
func TestReaderThatWaitsHasNotGone(t *testing.T) {
	d := newDataset(t, 51, same(400, 3000), 10, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		plan := d.plan(t, shuffle.None, 0)
		defer d.store.SetFault(nil)
		read := func(first uint64, delay time.Duration) {
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: delay} })
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: first, End: first + 10, BatchSize: 10}
			body, err := s.Read(t.Context(), at, d.ranges(t, at.Epoch.Append(nil, first, first+10)))
			must(t, err)
			body.Close()
		}
		for i := range uint64(4) { // a quick one, that would not be waited for long
			read(10*i, 10*time.Millisecond)
		}
		var wg sync.WaitGroup
		wg.Go(func() { read(40, time.Minute) })
		synctest.Wait()
		time.Sleep(30 * time.Second) // the bubble's clock
		if p.readers.Forget(time.Now()); !p.readers.Expected(s, 5) {
			t.Error("a reader was forgotten while it waited")
		}
		wg.Wait()
		if p.readers.Forget(time.Now()); !p.readers.Expected(s, 5) {
			t.Error("a reader was forgotten when it had just got its batch")
		}
	})
}

// What was evicted before its reader came for it is fetched again, though its reader has not moved.
func TestWhatIsEvictedWithinTheHorizonIsFetchedAgain(t *testing.T) {
	d := newDataset(t, 46, same(640, 3000), 640, 64<<10)
	synctest.Test(t, func(t *testing.T) {
		b := bud(8 << 20)
		p := newPath(t, Config{Budget: b})
		s := p.Open(d.index, d.store, "set/")
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		plan := d.plan(t, shuffle.None, 0)
		read := func() {
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 8, BatchSize: 8}
			body, err := s.Read(t.Context(), at, d.ranges(t, plan.Epoch(0).Append(nil, 0, 8)))
			must(t, err)
			body.Close()
			synctest.Wait()
		}
		read()
		before := p.Stats().CachedChunks
		r, err := b.Reserve(t.Context(), 8<<20)
		must(t, err)
		r.Release()
		if read(); before < 8 || p.Stats().CachedChunks != before {
			t.Errorf("got %d chunks in memory, want %d as before, and at least 8", p.Stats().CachedChunks, before)
		}
		stop()
		run.Wait()
	})
}
