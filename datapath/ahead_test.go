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
		time.Sleep(readerNew + time.Second) // the bubble's clock
		read(shuffle.Cursor{}, 395)
		p.cache.Reclaim(p.budget.Total(), false)
		if s.resident(0) {
			t.Error("a chunk stayed whose reader has gone")
		}
		if got := p.follow.list(1); len(got) != 0 {
			t.Errorf("got %d readers to fetch ahead for, want none", len(got))
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
		if p.follow.forget(time.Now()) {
			t.Error("a reader was forgotten while it waited")
		}
		wg.Wait()
		if p.follow.forget(time.Now()) {
			t.Error("a reader was forgotten when it had just got its batch")
		}
	})
}

// A reader that comes back before anybody else missed it is the same one.
func TestReaderThatComesBackIsTheSame(t *testing.T) {
	d := newDataset(t, 52, same(40, 1000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(8 << 20)})
	s := p.Open(d.index, d.store, "set/")
	plan := d.plan(t, shuffle.None, 0)
	now := time.Unix(1e9, 0)
	for i, pause := range []time.Duration{0, time.Millisecond, time.Hour} {
		now = now.Add(pause)
		r, _, first := p.follow.move(s, shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: uint64(i), End: uint64(i) + 1, BatchSize: 1}, now)
		p.follow.ended(r, now)
		if want := i == 0; first != want || len(p.follow.list(1)) != 1 {
			t.Errorf("read %d: got a new reader: %v, of %d, want %v, of one", i, first, len(p.follow.list(1)), want)
		}
	}
}

// A plan that was dropped and prepared again is the same plan, so its reader is the same.
func TestReaderKeepsItsPlaceWhenItsPlanIsPreparedAgain(t *testing.T) {
	d := newDataset(t, 52, same(40, 1000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(8 << 20)})
	s := p.Open(d.index, d.store, "set/")
	for i, seed := range []uint64{7, 7, 8} {
		plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 2, Seed: seed}, d.index.First())
		must(t, err)
		r, first := p.moved(s, shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: uint64(i), End: uint64(i) + 1, BatchSize: 1})
		p.follow.ended(r, time.Now())
		if want := i != 1; first != want {
			t.Errorf("read %d, seed %d: got a new reader: %v, want %v", i, seed, first, want)
		}
	}
	if got := len(p.follow.list(1)); got != 2 {
		t.Errorf("got %d readers, want one for each seed", got)
	}
}

// What the readers keep alive is bounded by the budget: of many plans of a large dataset only the newest are followed.
func TestReadersKeepFewLargePlans(t *testing.T) {
	d := newDataset(t, 53, same(400, 1000), 1, 1<<20) // 400 chunks: 100 KiB a reader
	for total, want := range map[int64]int{64 << 20: 20, 16 << 20: 5, 1 << 20: 1} {
		p := newPath(t, Config{Budget: bud(total)})
		s := p.Open(d.index, d.store, "set/")
		for seed := range uint64(25) {
			plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 2, Seed: seed}, d.index.First())
			must(t, err)
			r, _ := p.moved(s, shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 1, BatchSize: 1})
			p.follow.ended(r, time.Now())
		}
		if got := len(p.follow.list(1)); got != want {
			t.Errorf("got %d readers followed with a budget of %d bytes, want %d", got, total, want)
		}
	}
}
