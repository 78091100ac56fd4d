package datapath

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// opening is a dataset of 32 chunks of 1 MB with 16 samples each, a store behind a simulated link,
// and a running path. Each batch of 16 samples has one or two samples of a chunk.
type opening struct {
	*dataset
	line   *shaped.Store
	path   *Path
	source *Source
	plan   *shuffle.Plan
}

const openingBatch = 16

var openingSet = sync.OnceValue(func() []int { return same(32*16, 64_000) })

// opened opens the dataset under the fake clock and calls test. At that time the store's rates have
// been measured, and no chunk is in memory.
func opened(t *testing.T, d *dataset, shape shaped.Shape, test func(t *testing.T, x *opening)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		x := &opening{dataset: d, line: shaped.New(d.store, shape), path: newPath(t, Config{Budget: bud(64 << 20), PartSize: 2 << 20})}
		x.source, x.plan = x.path.Open(d.index, x.line, "set/"), d.plan(t, shuffle.Window, 16)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = x.path.Run(ctx) })
		synctest.Wait() // wait until the memory is mapped
		defer run.Wait()
		defer stop()
		x.measurement(t)
		d.store.Reset()
		test(t, x)
	})
}

// In nearStore one more read costs little, in quickStore hardly anything, and in farStore more than
// reading several chunks of 1 MB.
var (
	nearStore  = shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 20e6}
	quickStore = shaped.Shape{FirstByte: 5 * time.Millisecond, Stream: 20e6}
	farStore   = shaped.Shape{FirstByte: 200 * time.Millisecond, Stream: 100e6}
)

// read reads one batch and checks it. It returns the duration and the number of store reads by
// sample ranges.
func (x *opening) read(t *testing.T, epoch uint64, number uint64) (took time.Duration, ranged uint64) {
	t.Helper()
	begin, before := time.Now(), x.path.Stats().RangeReads
	e, lo := x.plan.Epoch(epoch), number*openingBatch
	chunks := x.ranges(t, e.Append(nil, lo, lo+openingBatch))
	at := shuffle.Cursor{Plan: x.plan, Epoch: e, First: lo, End: lo + openingBatch, BatchSize: openingBatch}
	body, err := x.source.Read(t.Context(), at, chunks)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	took = time.Since(begin)
	if err := x.check(chunks, body); err != nil {
		t.Error(err)
	}
	body.Close()
	return took, x.path.Stats().RangeReads - before
}

// measurement reads an epoch of another plan, so that the store's rates are known, and then forgets
// its reader and chunks.
func (x *opening) measurement(t *testing.T) {
	t.Helper()
	x.readEpoch(t, x.source, x.dataset.plan(t, shuffle.None, 0), 0, openingBatch)
	x.forget(t)
}

// forget removes all readers and all chunks.
func (x *opening) forget(t *testing.T) {
	t.Helper()
	time.Sleep(time.Hour)
	x.path.readers.Forget(time.Now())
	x.path.cache.Reclaim(1<<40, chunkcache.AnyDue)
	if got := x.path.Stats().CachedChunks; got != 0 {
		t.Errorf("got %d chunks in memory, want none", got)
	}
}

// A first batch is read by the ranges of its samples if that is faster at the store's measured
// rates, and otherwise by whole chunks.
func TestFirstBatch_ChoosesFasterRead(t *testing.T) {
	d := newDataset(t, 71, openingSet(), 16, 2<<20)
	for name, c := range map[string]struct {
		shape  shaped.Shape
		ranges bool
	}{"near": {nearStore, true}, "far": {farStore, false}} {
		opened(t, d, c.shape, func(t *testing.T, x *opening) {
			took, ranged := x.read(t, 0, 0)
			if ranged > 0 != c.ranges {
				t.Errorf("%s, %v to the first byte: got %d reads of samples in %v, want some: %v", name, c.shape.FirstByte, ranged, took, c.ranges)
			}
			bare := x.bare(t)
			if c.ranges && took > bare*11/10 {
				t.Errorf("%s: got the first batch after %v, want at most a tenth more than the %v of its samples alone", name, took, bare)
			}
		})
	}
}

// bare returns the time to read only the samples of the first batch.
func (x *opening) bare(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	turns := make(chan struct{}, DefaultFetchers)
	var wg sync.WaitGroup
	for _, c := range x.ranges(t, x.plan.Epoch(0).Append(nil, 0, openingBatch)) {
		for _, r := range c.Ranges {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				e := x.index.Extents(c.Chunk)[0]
				shard := x.index.Shard(e.Shard)
				ref := objstore.Ref{Key: "set/" + shard.Key, ETag: shard.ETag}
				if err := x.line.ReadRange(t.Context(), ref, e.Offset+int64(r.Offset), make([]byte, r.Length)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	return time.Since(begin)
}

// Only the first batch of an epoch is read by ranges, and each of its bytes is read at most twice.
func TestOnlyTheFirstBatchIsReadTwice(t *testing.T) {
	d := newDataset(t, 71, openingSet(), 16, 2<<20)
	opened(t, d, nearStore, func(t *testing.T, x *opening) {
		var first uint64
		for n := range x.plan.Samples() / openingBatch {
			switch _, ranged := x.read(t, 0, n); {
			case n == 0:
				first = ranged
			case ranged > 0:
				t.Errorf("batch %d: got %d reads of samples by themselves, want none after the first batch", n, ranged)
			}
		}
		if first == 0 {
			t.Error("got no reads of samples by themselves for the first batch")
		}
		var twice int64
		for shard := range 32 {
			var edges []int64
			var reads [][2]int64
			for _, r := range d.store.Reads() {
				if r.Key == "set/"+d.index.Shard(shard).Key {
					reads = append(reads, [2]int64{r.Offset, r.Offset + r.Length})
					edges = append(edges, r.Offset, r.Offset+r.Length)
				}
			}
			slices.Sort(edges)
			for i := 1; i < len(edges); i++ {
				times := 0
				for _, r := range reads {
					if r[0] <= edges[i-1] && edges[i] <= r[1] {
						times++
					}
				}
				if times > 2 {
					t.Errorf("shard %d: got the bytes from %d to %d read %d times", shard, edges[i-1], edges[i], times)
				}
				if times == 2 {
					twice += edges[i] - edges[i-1]
				}
			}
		}
		if want := int64(openingBatch * 64_000 * 9 / 8); twice > want { // the batch, and the gaps between its samples
			t.Errorf("got %d bytes read twice, want the %d of the first batch at most", twice, want)
		}
	})
}

// After a resume, after a jump, and after all chunks were evicted, a reader's first batch is read
// by ranges. A reader that finds most chunks in memory uses them.
func TestFirstBatch_ResumeReadsByRanges(t *testing.T) {
	d := newDataset(t, 71, openingSet(), 16, 2<<20)
	opened(t, d, nearStore, func(t *testing.T, x *opening) {
		for _, c := range []struct {
			what   string
			epoch  uint64
			batch  uint64
			before func()
			ranges bool
		}{
			{"resume", 3, 16, func() {}, true},
			{"the next batch", 3, 17, func() {}, false},
			{"return after all has gone", 3, 18, func() { x.forget(t) }, true},
			{"jump to another window", 7, 0, func() { x.forget(t) }, true},
			{"another reader of chunks in memory", 7, 0, func() { time.Sleep(time.Hour); x.path.readers.Forget(time.Now()) }, false},
		} {
			c.before()
			if _, ranged := x.read(t, c.epoch, c.batch); ranged > 0 != c.ranges {
				t.Errorf("%s: got %d reads of samples by themselves, want some: %v", c.what, ranged, c.ranges)
			}
			synctest.Wait()
			time.Sleep(time.Second) // give prefetching time
		}
	})
}

// Batches that a client requests at the same time as the first batch do not delay it, in any order
// of arrival.
func TestFirstBatchDoesNotWaitForThoseAskedForWithIt(t *testing.T) {
	d := newDataset(t, 71, openingSet(), 16, 2<<20)
	for _, order := range [][]uint64{{0, 1, 2, 3}, {1, 0, 2, 3}} {
		opened(t, d, quickStore, func(t *testing.T, x *opening) {
			var wg sync.WaitGroup
			var first time.Duration
			for _, n := range order {
				wg.Go(func() {
					if took, _ := x.read(t, 0, n); n == 0 {
						first = took
					}
				})
				synctest.Wait()
			}
			wg.Wait()
			if alone := x.bare(t); first > alone*5/2 {
				t.Errorf("order %v: got the first batch after %v, want little more than the %v of its samples alone", order, first, alone)
			}
		})
	}
}

// The reads of a first batch by ranges have a fixed number of places, however many places the gate
// has found to pay. If the gate has many more, whole chunks arrive as soon, so the batch reads
// whole chunks.
func TestFirstBatchOfAGatewayWithManyPlaces(t *testing.T) {
	d := newDataset(t, 71, openingSet(), 16, 2<<20)
	for places, ranges := range map[int]bool{DefaultFetchers: true, mostPlaces: false} {
		opened(t, d, shaped.Shape{FirstByte: 8 * time.Millisecond, Stream: 20e6}, func(t *testing.T, x *opening) {
			x.path.gate.mu.Lock()
			x.path.gate.resize(places)
			x.path.gate.mu.Unlock()
			const samples = 64
			e, begin := x.plan.Epoch(0), time.Now()
			at := shuffle.Cursor{Plan: x.plan, Epoch: e, End: samples, BatchSize: samples}
			body, err := x.source.Read(t.Context(), at, x.ranges(t, e.Append(nil, 0, samples)))
			must(t, err)
			defer body.Close()
			if ranged := x.path.Stats().RangeReads; ranged > 0 != ranges {
				t.Errorf("%d places: got %d reads of samples in %v, want some: %v", places, ranged, time.Since(begin), ranges)
			}
		})
	}
}
