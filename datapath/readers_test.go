package datapath

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

func near(got, want float64) bool { return math.Abs(got-want) <= .1*want }

// With two ranks of one job, the table derives its data about each rank from the times of its
// requests, of the arrival of bytes and of its responses.
func TestReadersAreKnownFromTheirRequests(t *testing.T) {
	d := newDataset(t, 50, same(400, 1000), 40, 64<<10)
	plan := d.plan(t, shuffle.Window, 2)
	bubble.Test(t, func(t *testing.T) {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: 50 * time.Millisecond} })
		defer d.store.SetFault(nil)
		p := newPath(t, Config{Budget: bud(64 << 10), NoPrefetch: true}) // memory for one chunk: each batch waits for its bytes
		s := p.Open(d.index, d.store, "set/")
		read := func(rank, batch uint64, think time.Duration) {
			e := plan.Epoch(0)
			lo := batch * 20
			at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: lo + 20, BatchSize: 20, Rank: rank, WorldSize: 2}
			body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, lo+10*rank, lo+10*rank+10)))
			must(t, err)
			time.Sleep(10 * time.Millisecond) // time to send the body
			body.Close()
			time.Sleep(think)
		}
		begin := time.Now()
		for batch := range uint64(10) {
			read(0, batch, 140*time.Millisecond)
			if batch < 7 {
				read(1, batch, 0)
			}
		}
		took := time.Since(begin).Seconds()
		got := p.Readers()
		if len(got) != 2 || got[0].Rank != 0 || got[1].Rank != 1 {
			t.Fatalf("got %+v, want ranks 0 and 1", got)
		}
		fast, slow := got[0], got[1]
		if fast.Batch != 9 || fast.Behind != 0 || slow.Batch != 6 || slow.Behind != 3 {
			t.Errorf("got batch %d, %d behind, and batch %d, %d behind; want 9, 0, 6, 3", fast.Batch, fast.Behind, slow.Batch, slow.Behind)
		}
		if !near(fast.Rate, 100/took) {
			t.Errorf("got %.1f samples/s, want about %.1f", fast.Rate, 100/took)
		}
		if fast.Think < 140*time.Millisecond {
			t.Errorf("got a pause of %v between batches, want at least the 140 ms it takes", fast.Think)
		}
		if fast.Waits <= 0 || fast.Waits >= 1 {
			t.Errorf("got %.2f of its time waiting, want a part of it", fast.Waits)
		}
		if want := float64(400-9*20) / 2 / fast.Rate; !near(fast.Left.Seconds(), want) {
			t.Errorf("got %v left of the epoch, want about %.1f s", fast.Left, want)
		}
		// A request out of order moves the reader's position.
		read(0, 2, 0)
		if got := p.Readers()[0]; got.Batch != 2 || p.Readers()[1].Behind != 0 {
			t.Errorf("got batch %d after a step back, and the other %d behind; want 2 and 0", got.Batch, p.Readers()[1].Behind)
		}
		time.Sleep(5*time.Minute + time.Second)
		if got := p.Readers(); len(got) != 0 {
			t.Errorf("got %d readers long after their last request, want none", len(got))
		}
	})
}

// mapMemory maps memory for chunks of n bytes and leaves it free.
func mapMemory(t *testing.T, p *Path, n int64) {
	var free []*chunkcache.Buffer[key]
	for range 1100 {
		buffer, ok := p.cache.TryBuffer(n)
		if !ok {
			t.Fatal("got no memory")
		}
		free = append(free, buffer)
	}
	for _, buffer := range free {
		buffer.Close()
	}
}

// fillMemory fills the memory with chunks of n bytes of a dataset that is no longer read.
func fillMemory(t *testing.T, p *Path, n int64) {
	load := func(_ context.Context, fills []*chunkcache.Fill[key]) error {
		fills[0].Publish()
		return nil
	}
	chunks := int(p.budget.Total() / chunkcache.Cost(n))
	table := chunkcache.NewTable(chunks, chunkcache.Dataset[key]{Owner: &Source{}, Chunk: func(i int) chunkcache.Chunk[key] {
		return chunkcache.Chunk[key]{Key: key{source: 99, crc: uint32(i)}, Size: n}
	}})
	for i := range chunks {
		wait, err := p.cache.Start(t.Context(), chunkcache.Request[key]{Table: table, Chunks: []int{i}, Load: load})
		must(t, err)
		l, err := wait()
		must(t, err)
		l.Close()
	}
	if used := p.budget.InUse(); used < p.budget.Total()/100*99 {
		t.Fatalf("got %d bytes in use of %d, want nearly all", used, p.budget.Total())
	}
}

// readPart reads the first samples of epoch 0 in batches of 32.
func (d *dataset) readPart(t *testing.T, s *Source, plan *shuffle.Plan, samples uint64) {
	e := plan.Epoch(0)
	for lo := uint64(0); lo < samples; lo += 32 {
		at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: lo + 32, BatchSize: 32}
		body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, lo, lo+32)))
		must(t, err)
		body.Close()
	}
}
