package datapath

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// trial is a path under the fake clock, over a dataset of equal chunks. Each shard is one chunk, so
// the number of store reads is the number of chunks.
type trial struct {
	*dataset
	path   *Path
	source *Source
	stop   func()
}

// trialOf opens a path that may prefetch the given number of chunks, and starts Run.
func (d *dataset) trialOf(t *testing.T, chunks int64, cfg Config) *trial {
	t.Helper()
	cfg.Budget = bud(d.room(chunks))
	p := newPath(t, cfg)
	x := &trial{dataset: d, path: p, source: p.Open(d.index, d.store, "set/")}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = p.Run(ctx) })
	x.stop = func() {
		stop()
		run.Wait()
	}
	d.store.Reset()
	return x
}

// room returns the smallest budget that has room for the given number of prefetched chunks.
func (d *dataset) room(chunks int64) int64 {
	cost := (&Source{index: d.index}).Cost(0) * chunks
	return (cost + 6) / 7 * 10
}

const perChunk = 4 // samples per chunk: large enough that eight plans are small compared with the memory

func oneToAShard(t *testing.T, chunks int) *dataset {
	d := newDataset(t, 60, same(chunks*perChunk, 20_000), perChunk, 1<<20)
	if got := d.index.Chunks(); got != chunks {
		t.Fatalf("got %d chunks, want %d", got, chunks)
	}
	return d
}

// read reads one batch of as many samples as a chunk has.
func (x *trial) read(t *testing.T, e *shuffle.Epoch, p *shuffle.Plan, first uint64) {
	t.Helper()
	end := min(first+perChunk, p.Samples())
	chunks := x.ranges(t, e.Append(nil, first, end))
	at := shuffle.Cursor{Plan: p, Epoch: e, First: first, End: end, BatchSize: perChunk}
	body, err := x.source.Read(t.Context(), at, chunks)
	must(t, err)
	must(t, x.check(chunks, body))
	body.Close()
}

// epoch reads an epoch, with a pause after each batch.
func (x *trial) epoch(t *testing.T, p *shuffle.Plan, number uint64, think time.Duration) {
	t.Helper()
	e := p.Epoch(number)
	for lo := uint64(0); lo < p.Samples(); lo += perChunk {
		x.read(t, e, p, lo)
		time.Sleep(think) // fake time
	}
}

func (x *trial) reads() int { return x.store.Stats().Requests[memstore.Read] }

func slow(delay time.Duration) func(memstore.Call) memstore.Fault {
	return func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: delay} }
}

// Several jobs on one epoch read no more from the store than one job does. They start together or
// some seconds apart, as long as memory holds the chunks between them.
func TestJobsOnOneEpochReadTheStoreOnce(t *testing.T) {
	const chunks = 96
	d := oneToAShard(t, chunks)
	for _, c := range []struct {
		jobs  int
		apart time.Duration
	}{{1, 0}, {2, 0}, {4, 0}, {8, 0}, {2, 3 * time.Second}, {4, time.Second}, {8, 400 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%d/%v", c.jobs, c.apart), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d.store.SetFault(slow(20 * time.Millisecond))
				defer d.store.SetFault(nil)
				x := d.trialOf(t, 42, Config{}) // 60 chunks in total: 30 for three seconds, 20 that the last job needs and 20 that the first job needs
				plan := d.plan(t, shuffle.Window, 4)
				var wg sync.WaitGroup
				for i := range c.jobs {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * c.apart)
						x.epoch(t, plan, 0, 100*time.Millisecond)
					})
				}
				wg.Wait()
				x.stop()
				if got := x.reads(); got > chunks+20 { // plus the first chunks of the next epoch
					t.Errorf("got %d store reads of %d chunks, want each once", got, chunks)
				}
			})
		})
	}
}

// With half of the data in memory, the store reads of a second epoch stay within the bound N - (C -
// W - 16) if chunks are evicted by the plan. W is the window, and 16 the number of chunks that are
// needed soon. With LRU nearly all chunks are read again.
func TestSecondEpochWithHalfTheDataInMemory(t *testing.T) {
	const n, c, w = 128, 64, 4
	d := oneToAShard(t, n)
	for name, in := range map[string][2]int{policy.Plan: {n - c, n - (c - w - 16)}, policy.LRU: {n * 3 / 4, n}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d.store.SetFault(slow(5 * time.Millisecond))
				defer d.store.SetFault(nil)
				x := d.trialOf(t, c*7/10, Config{Policy: name}) // the whole memory holds c chunks
				plan := d.plan(t, shuffle.Window, w)
				x.epoch(t, plan, 0, 100*time.Millisecond)
				for e := uint64(1); e < 4; e++ {
					before := x.reads()
					x.epoch(t, plan, e, 100*time.Millisecond)
					if got := x.reads() - before; got < in[0] || got > in[1] {
						t.Errorf("epoch %d: got %d store reads of %d chunks, want %d to %d", e, got, n, in[0], in[1])
					}
				}
				x.stop()
			})
		})
	}
}

// However different the readers are and however small the memory, they do not alternately evict
// each other's chunks.
func TestReadersLeaveEachOtherTheirChunks(t *testing.T) {
	d := oneToAShard(t, 96)
	for _, room := range []int64{12, 24, 48, 80} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				x := d.trialOf(t, room, Config{})
				d.store.SetFault(slow(20 * time.Millisecond))
				defer d.store.SetFault(nil)
				var wg sync.WaitGroup
				for i, think := range []time.Duration{20, 50, 200} {
					plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 2, Seed: uint64(i)}, d.index.First())
					must(t, err)
					wg.Go(func() {
						for lo := uint64(0); lo < 300/uint64(think)*20; lo += perChunk {
							x.read(t, plan.Epoch(0), plan, lo)
							time.Sleep(think * time.Millisecond)
						}
					})
				}
				wg.Wait()
				x.stop()
				if got := x.path.Stats(); got.Loads > 130 || got.RangeReads > 0 || room < 80 && got.Evictions == 0 {
					t.Errorf("got %d loads of 93 chunks, %d reads of samples and %d evictions, want hardly more loads, and evictions", got.Loads, got.RangeReads, got.Evictions)
				}
			})
		})
	}
}

// With one fetcher and two readers, the chunk for which a reader would stall first is fetched
// first.
func TestRun_ServesFirstStallFirst(t *testing.T) {
	d := oneToAShard(t, 64)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(16 << 20), Fetchers: 1})
		think := map[*Source]time.Duration{}
		plan := d.plan(t, shuffle.None, 0)
		for _, pause := range []time.Duration{400 * time.Millisecond, 100 * time.Millisecond} {
			s := p.Open(d.index, d.store, "set/")
			think[s] = pause
			x := &trial{dataset: d, path: p, source: s}
			for i := range uint64(4) {
				if i > 0 {
					time.Sleep(pause)
				}
				x.read(t, plan.Epoch(0), plan, i*perChunk)
			}
		}
		var order []int // time until each prefetched chunk is needed, in milliseconds
		d.store.SetFault(func(call memstore.Call) memstore.Fault {
			var c int
			_, err := fmt.Sscanf(call.Key, "set/s%05d.tar", &c)
			must(t, err)
			for f := range p.flights.Range {
				order = append(order, (c-3)*int(think[f.(*flight).source].Milliseconds()))
			}
			return memstore.Fault{Delay: 10 * time.Millisecond}
		})
		defer d.store.SetFault(nil)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		time.Sleep(200 * time.Millisecond) // 20 chunks
		stop()
		run.Wait()
		if len(order) < 15 {
			t.Fatalf("got %d reads ahead, want some", len(order))
		}
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				t.Fatalf("got chunks in this order of deadlines in ms: %v, want it ascending", order)
			}
		}
		if want := []int{100, 200, 300, 400, 400, 500, 600, 700, 800, 800}; !slices.Equal(order[:10], want) {
			t.Errorf("got deadlines in ms %v, want %v of both readers", order[:10], want)
		}
	})
}

// Loads for a reader that has jumped are canceled once it is clear that it does not return, and its
// chunks in memory may be evicted.
func TestRun_CancelsReadsOfJumpedReader(t *testing.T) {
	const chunks, there = 96, 60
	d := oneToAShard(t, chunks)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 60, Config{})
		plan := d.plan(t, shuffle.None, 0)
		e := plan.Epoch(0)
		d.store.SetFault(func(call memstore.Call) memstore.Fault {
			if call.Key > "set/s00009.tar" && call.Key < fmt.Sprintf("set/s%05d.tar", there) {
				return memstore.Fault{Stall: true} // chunks from the reader's first position on never arrive
			}
			return memstore.Fault{Delay: time.Millisecond}
		})
		defer d.store.SetFault(nil)
		for i := range uint64(3) {
			x.read(t, e, plan, i*perChunk)
			time.Sleep(10 * time.Millisecond)
		}
		before := d.store.InFlight()
		for i := range uint64(30) {
			x.read(t, e, plan, (there+i%8)*perChunk)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if got := d.store.InFlight(); before == 0 || got != 0 {
			t.Errorf("got %d reads under way before the jump and %d of them long after, want some and none", before, got)
		}
		if x.path.readers.NextUse(x.source, 5).Soon || !x.path.readers.NextUse(x.source, there+8).Soon {
			t.Error("want the chunks expected that it needs, and not those that it left")
		}
		x.stop()
	})
}

// The readers that a path has seen change no byte: the same requests, in another order and after
// other readers, return the same bodies.
func TestReaders_HistoryChangesNoByte(t *testing.T) {
	d := newDataset(t, 61, same(400, 900), 40, 16<<10)
	for _, rule := range policy.Names() {
		bubble.Test(t, func(t *testing.T) {
			type request struct {
				plan  *shuffle.Plan
				epoch uint64
				first uint64
			}
			rnd := rand.New(rand.NewPCG(5, 5))
			var requests []request
			for _, name := range []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full} {
				plan := d.plan(t, name, 3)
				for range 30 {
					requests = append(requests, request{plan, rnd.Uint64N(2), rnd.Uint64N(380)})
				}
			}
			var want [][]byte
			for run, budget := range []int64{8 << 20, 150 << 10, 60 << 10} {
				p := newPath(t, Config{Budget: bud(budget), Policy: rule})
				s := p.Open(d.index, d.store, "set/")
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _ = p.Run(ctx) })
				got := make([][]byte, len(requests))
				order := rnd.Perm(len(requests))
				if run > 0 {
					d.readEpoch(t, s, d.plan(t, shuffle.Slot, 5), 3, 7) // another reader
				}
				for _, i := range order {
					r := requests[i]
					e := r.plan.Epoch(r.epoch)
					at := shuffle.Cursor{Plan: r.plan, Epoch: e, First: r.first, End: r.first + 20, BatchSize: 20}
					body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, r.first, r.first+20)))
					must(t, err)
					got[i] = bytes.Join(body.Segments, nil)
					body.Close()
					time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
				}
				stop()
				wg.Wait()
				if run == 0 {
					want = got
				}
				for i := range got {
					if !bytes.Equal(got[i], want[i]) {
						t.Errorf("%s, run %d: request %d got another body than on a path without earlier readers", rule, run, i)
					}
				}
			}
		})
	}
}

// Requests do not wait for prefetches of any reader, however slow these are. The memory for a burst
// of readers stays within the budget.
func TestRequestsDoNotWaitForABurstOfReaders(t *testing.T) {
	const chunks = 96
	d := oneToAShard(t, chunks)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 60, Config{Fetchers: 4})
		plans := make([]*shuffle.Plan, 8)
		d.store.SetFault(slow(time.Millisecond)) // so that many chunks are still missing when all readers have arrived
		for i := range plans {
			var err error
			plans[i], err = shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 2, Seed: uint64(i)}, d.index.First())
			must(t, err)
			x.read(t, plans[i].Epoch(0), plans[i], 0)
		}
		d.store.SetFault(slow(time.Hour)) // from now on no prefetch completes
		defer d.store.SetFault(nil)
		x.path.look()
		synctest.Wait()
		if got := d.store.InFlight(); got != 4 {
			t.Fatalf("got %d reads ahead, want as many as there are fetchers", got)
		}
		var wanted [][]batch.ChunkRanges
		for c := 0; len(wanted) < 4; c++ {
			if !x.source.Resident(c) { // nor being loaded
				wanted = append(wanted, d.ranges(t, []uint64{uint64(c) * perChunk}))
			}
		}
		begin := time.Now()
		d.store.SetFault(slow(time.Second))
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				chunk := wanted[n]
				body, err := x.source.Read(t.Context(), shuffle.Cursor{}, chunk)
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.check(chunk, body); err != nil {
					t.Error(err)
				}
				body.Close()
			})
		}
		wg.Wait()
		if got := time.Since(begin); got > time.Second {
			t.Errorf("four requests during four reads ahead that take an hour: got them in %v, want a second", got)
		}
		if got := x.path.Stats(); got.BudgetPeak > got.BudgetTotal {
			t.Errorf("got a peak of %d bytes, want at most %d", got.BudgetPeak, got.BudgetTotal)
		}
		x.stop()
	})
}
