package datapath

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// A reader that has ended is forgotten at the next read of any reader, even one without locality.
// Its chunks may then be evicted.
func TestReaderThatHasGoneIsForgotten(t *testing.T) {
	d := newDataset(t, 51, same(400, 3000), 10, 1<<20) // 40 chunks
	bubble.Test(t, func(t *testing.T) {
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
		p.cache.Reclaim(p.budget.Total(), chunkcache.Soon)
		if !s.chunks.Resident(0) {
			t.Error("a chunk went that its reader comes for again")
		}
		time.Sleep(31 * time.Second) // fake time: longer than a reader with one request is waited for
		read(shuffle.Cursor{}, 395)
		p.cache.Reclaim(p.budget.Total(), chunkcache.Soon)
		if s.chunks.Resident(0) {
			t.Error("a chunk stayed whose reader has gone")
		}
		if got := slices.Collect(p.readers.Missing()); len(got) != 0 {
			t.Errorf("got %d chunks to fetch ahead, want none", len(got))
		}
		stop()
		run.Wait()
	})
}

// A reader that is waiting for the store does not count as ended, however long it waits.
func TestReaderThatWaitsHasNotGone(t *testing.T) {
	d := newDataset(t, 51, same(400, 3000), 10, 1<<20)
	bubble.Test(t, func(t *testing.T) {
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
		for i := range uint64(4) { // a fast reader, which would not be waited for long
			read(10*i, 10*time.Millisecond)
		}
		var wg sync.WaitGroup
		wg.Go(func() { read(40, time.Minute) })
		synctest.Wait()
		time.Sleep(30 * time.Second) // fake time
		if p.readers.Forget(time.Now()); !p.readers.NextUse(s, 5).Soon {
			t.Error("a reader was forgotten while it waited")
		}
		wg.Wait()
		if p.readers.Forget(time.Now()); !p.readers.NextUse(s, 5).Soon {
			t.Error("a reader was forgotten when it had just got its batch")
		}
	})
}

// A chunk that is evicted before its reader needs it is fetched again, although the reader has not
// moved.
func TestRun_FetchesEvictedChunkAgain(t *testing.T) {
	d := newDataset(t, 46, same(640, 3000), 640, 64<<10)
	bubble.Test(t, func(t *testing.T) {
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

// Run continues as soon as there is memory, even if the reader sends no further request. Memory
// becomes free when the body that holds it is closed, and when a request that waited for it is
// canceled.
func TestRun_ResumesWhenMemoryIsFreed(t *testing.T) {
	const chunks, room = 32, 20
	d := oneToAShard(t, chunks)
	for _, name := range []string{"a body is closed", "a waiter gives up"} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				x := d.trialOf(t, room*7/10, Config{})
				plan := d.plan(t, shuffle.None, 0)
				all := x.path.budget.Total()
				if name == "a body is closed" {
					body, err := x.path.cache.Buffer(t.Context(), all/8*7)
					must(t, err)
					x.read(t, plan.Epoch(0), plan, 0)
					defer synctest.Wait()
					time.Sleep(100 * time.Millisecond) // fake time
					body.Close()
				} else {
					held, err := x.path.budget.Reserve(t.Context(), all/10)
					must(t, err)
					defer held.Release()
					var late sync.WaitGroup
					late.Go(func() {
						if _, err := x.path.budget.Reserve(t.Context(), all); err == nil {
							t.Error("got all memory while some was held")
						}
					})
					synctest.Wait()
					x.read(t, plan.Epoch(0), plan, 0)
					late.Wait()
				}
				time.Sleep(100 * time.Millisecond)
				if got := x.path.Stats().CachedChunks; got < room*6/10 {
					t.Errorf("got %d chunks in memory, want those that the reader comes for and that fit, nearly %d", got, room*7/10)
				}
				x.stop()
			})
		})
	}
}

// If there is no room for all chunks of one store read, Run loads some of them.
func TestRun_UsesAvailableMemory(t *testing.T) {
	d := newDataset(t, 46, same(640, 3000), 640, 32<<10) // 64 chunks in one shard
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 28, Config{}) // memory for 40 chunks in total
		plan := d.plan(t, shuffle.None, 0)
		body, err := x.path.cache.Buffer(t.Context(), x.path.budget.Total()/16*10) // memory for about 13 chunks is left
		must(t, err)
		x.read(t, plan.Epoch(0), plan, 0)
		time.Sleep(time.Second) // fake time
		if got := x.path.Stats().CachedChunks; got < 8 {
			t.Errorf("got %d chunks in memory that has room for about 13, want most of them", got)
		}
		body.Close()
		x.stop()
	})
}
