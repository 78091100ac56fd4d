package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// warmAll calls Warm until it is done or memory is full. It returns the number of calls and the
// number of loaded chunks.
func (x *trial) warmAll(t *testing.T, p *shuffle.Plan, from uint64) (calls, chunks int, full bool) {
	t.Helper()
	for at := from; at < p.Samples() && !full; calls++ {
		w, err := x.source.Warm(t.Context(), shuffle.Cursor{Plan: p, Epoch: p.Epoch(0), First: at, End: min(at+perChunk, p.Samples()), BatchSize: perChunk})
		must(t, err)
		if w.Next < at || w.Bytes != int64(w.Chunks)*x.index.Chunk(0).Length {
			t.Fatalf("got %+v from position %d, want the chunks' bytes and a position not before it", w, at)
		}
		at, chunks, full = w.Next, chunks+w.Chunks, w.Full
	}
	return calls, chunks, full
}

// A warm epoch needs no store read, in any order. Warming it again costs nothing.
func TestWarmEpochNeedsNoStore(t *testing.T) {
	const chunks = 40
	d := oneToAShard(t, chunks)
	for _, name := range []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full} {
		bubble.Test(t, func(t *testing.T) {
			d.store.SetFault(slow(100 * time.Millisecond))
			defer d.store.SetFault(nil)
			x := d.trialOf(t, 60, Config{Fetchers: 2})
			plan := d.plan(t, name, 4)
			calls, brought, full := x.warmAll(t, plan, 0) // takes two seconds
			if calls < 2 || calls > 4 || brought != chunks || full {
				t.Errorf("%s: got %d calls that brought %d chunks, full %v; want two or three, %d", name, calls, brought, full, chunks)
			}
			if _, again, _ := x.warmAll(t, plan, 0); again != 0 {
				t.Errorf("%s: got %d chunks brought again, want none", name, again)
			}
			time.Sleep(5 * time.Minute) // until the job starts
			x.epoch(t, plan, 0, 10*time.Millisecond)
			if got := x.reads(); got != chunks {
				t.Errorf("%s: got %d store reads, want %d, all of them before the epoch", name, got, chunks)
			}
			x.stop()
		})
	}
}

// If memory is too small, Warm fills it up to the limit with the first chunks of the epoch, and not
// beyond.
func TestWarmStopsWhenMemoryIsFull(t *testing.T) {
	const chunks, room = 40, 20
	d := oneToAShard(t, chunks)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, room, Config{})
		plan := d.plan(t, shuffle.Window, 4)
		_, brought, full := x.warmAll(t, plan, 0)
		if !full || brought != room {
			t.Errorf("got %d chunks, full %v, want %d and full", brought, full, room)
		}
		for span := range plan.Epoch(0).Spans(0) {
			if span.From < room*perChunk != x.source.Resident(int(span.Chunk)) {
				t.Errorf("chunk needed from position %d on: got resident %v", span.From, x.source.Resident(int(span.Chunk)))
			}
		}
		// From the middle of the epoch on there is nothing more to load, either.
		if _, again, full := x.warmAll(t, plan, plan.Samples()/2); again != 0 || !full {
			t.Errorf("got %d chunks more, full %v, want none and full", again, full)
		}
		x.stop()
	})
}

// Warming takes no resources from a reader, and waits until the reader's reads have ended.
func TestWarmLeavesReadersAlone(t *testing.T) {
	d := oneToAShard(t, 40)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 20, Config{})
		plan := d.plan(t, shuffle.None, 0)
		for i := range uint64(4) {
			x.read(t, plan.Epoch(0), plan, i*perChunk)
			time.Sleep(50 * time.Millisecond)
		}
		other := x.path.Open(d.index, d.store, "set/")
		at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: 0, End: perChunk, BatchSize: perChunk}
		w, err := other.Warm(t.Context(), at)
		must(t, err)
		for c := 3; c < 20; c++ {
			if !x.source.Resident(c) {
				t.Errorf("chunk %d of a reader at 3 was evicted for a warmed one", c)
			}
		}
		if !w.Full || w.Chunks > 3 {
			t.Errorf("got %+v with a reader that needs all chunks that fit, want full at once", w)
		}
		x.stop()
	})
}

// Warm returns the error of the store or of the caller; chunks loaded before it stay.
func TestWarmEndsWithTheFirstError(t *testing.T) {
	d := oneToAShard(t, 40)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 60, Config{Fetchers: 1})
		plan := d.plan(t, shuffle.None, 0)
		at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: 0, End: perChunk, BatchSize: perChunk}
		d.store.SetFault(func(call memstore.Call) memstore.Fault {
			if call.Key >= "set/s00007.tar" {
				return memstore.Fault{Err: objstore.ErrUnavailable}
			}
			return memstore.Fault{}
		})
		defer d.store.SetFault(nil)
		if w, err := x.source.Warm(t.Context(), at); !errors.Is(err, objstore.ErrUnavailable) || w.Chunks != 7 || d.store.InFlight() != 0 {
			t.Errorf("got %+v and %v, want 7 chunks and %v", w, err, objstore.ErrUnavailable)
		}
		d.store.SetFault(slow(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		begin := time.Now()
		if _, err := x.source.Warm(ctx, at); !errors.Is(err, context.Canceled) || time.Since(begin) > time.Second {
			t.Errorf("got %v after %v, want %v when its caller goes", err, time.Since(begin), context.Canceled)
		}
		if _, err := x.source.Warm(ctx, at); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		x.stop()
	})
}

// A waiting warming read gets a place when one is free and no request waits. No unused place is
// lost.
func TestGateGivesWarmReadsTheirTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{limit: 1, idle: func() {}}
		must(t, g.enter(t.Context(), nil))
		got := make(chan string, 3)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if g.enterWarm(ctx) != nil {
				got <- "left"
			}
		}()
		synctest.Wait()
		go func() {
			if g.enterWarm(t.Context()) == nil {
				got <- "ahead"
			}
		}()
		synctest.Wait()
		go func() {
			if g.enter(t.Context(), nil) == nil {
				got <- "request"
			}
		}()
		synctest.Wait()
		cancel()
		for _, want := range []string{"left", "request", "ahead"} {
			if name := <-got; name != want {
				t.Errorf("got %s, want %s", name, want)
			}
			if want != "ahead" {
				g.leave(nil) // the place taken first, then that of the request
			}
		}
		g.leaveWarm(false)
		if g.demand != 0 || g.ahead != 0 || len(g.later) != 0 {
			t.Errorf("got %d and %d places taken and %d waiting, want none", g.demand, g.ahead, len(g.later))
		}
	})
}

// While a reader finds no place for its chunks, warming reads get at most half of the places;
// otherwise they may use all.
func TestWarm_LeavesPlacesToReaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{limit: 4, idle: func() {}}
		var wg sync.WaitGroup
		warming := 0
		for range 8 {
			wg.Go(func() {
				must(t, g.enterWarm(t.Context()))
				warming++
			})
			synctest.Wait()
		}
		if warming != 4 || g.enterAhead(4) {
			t.Fatalf("got %d places taken to warm, and then one for a reader, want all 4 and none", warming)
		}
		g.starve(true)
		for range 2 {
			g.leaveWarm(false)
			synctest.Wait()
			if warming != 4 || !g.enterAhead(4) {
				t.Errorf("got %d places taken to warm, want 4 and one for a reader", warming)
			}
		}
		g.leaveWarm(false)
		synctest.Wait()
		if warming != 5 {
			t.Errorf("got %d places taken to warm in all, want half of the places still", warming)
		}
		g.leaveAhead(false)
		synctest.Wait()
		if warming != 5 {
			t.Error("more than half of the places go to those who warm while a reader finds none")
		}
		g.starve(false)
		for range 3 {
			synctest.Wait()
			g.leaveWarm(false)
		}
		wg.Wait()
		if warming != 8 {
			t.Errorf("got %d places taken to warm in all, want 8", warming)
		}
	})
}

// A reader's chunks arrive in time although another dataset is warmed over the same link.
func TestWarm_DoesNotDelayReader(t *testing.T) {
	d := newDataset(t, 44, same(64*72, 3000), 72*8, 256<<10)
	other := newDataset(t, 45, same(64*72, 3000), 72*8, 256<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(64 << 20), Fetchers: 4})
		s, warmed := p.Open(d.index, distant(d), "set/"), p.Open(other.index, distant(other), "set/")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		wg.Go(func() {
			plan := other.plan(t, shuffle.Window, 4)
			for at := (shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(1), BatchSize: 64}); ctx.Err() == nil && at.First < plan.Samples(); {
				w, err := warmed.Warm(ctx, at)
				if at.First = w.Next; err != nil {
					return
				}
			}
		})
		plan := d.plan(t, shuffle.None, 0)
		e := plan.Epoch(0)
		var waited time.Duration
		for lo := uint64(0); lo < 64*30; lo += 64 {
			at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: lo + 64, BatchSize: 64}
			asked := time.Now()
			body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, lo, lo+64)))
			must(t, err)
			body.Close()
			if lo >= 72*8 { // the chunks of the first shard arrive one by one, in one read
				waited += time.Since(asked)
			}
			time.Sleep(60 * time.Millisecond)
		}
		stop()
		wg.Wait()
		if waited > 100*time.Millisecond {
			t.Errorf("got a reader that waited for %v after its first shard, want hardly any", waited)
		}
	})
}

// TestWarm_OrderWithoutLocalityGoesAsStored checks that, for such an order, warming loads chunks in
// stored order and continues at the chunk of the sample at which it stopped.
func TestWarm_OrderWithoutLocalityGoesAsStored(t *testing.T) {
	d := newDataset(t, 1, same(40, 900), 10, 4<<10)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	plan := d.plan(t, shuffle.Full, 0)
	from := func(sample uint64) (chunks []int) {
		for span := range s.inOrder(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: sample}) {
			if want := d.index.Chunk(int(span.Chunk)).First; span.From != want {
				t.Errorf("got chunk %d from sample %d, want %d", span.Chunk, span.From, want)
			}
			chunks = append(chunks, int(span.Chunk))
		}
		return chunks
	}
	for sample := range uint64(40) {
		var want []int
		for c := d.index.ChunkOf(sample); c < d.index.Chunks(); c++ {
			want = append(want, c)
		}
		if got := from(sample); !slices.Equal(got, want) {
			t.Errorf("from sample %d: got chunks %v, want %v", sample, got, want)
		}
	}
	for range s.inOrder(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0)}) {
		break
	}
}
