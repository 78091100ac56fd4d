package datapath

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// distant returns a remote store behind a link that eight streams fill, under a fake clock. So
// differences in time come only from the order of the reads.
func distant(d *dataset) *shaped.Store {
	return shaped.New(d.store, shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 2.5e6, Total: 15.6e6})
}

// The first batch arrives hardly later than a download of its window alone would take, although
// prefetching has begun.
func TestFirstBatch_DoesNotWaitForPrefetch(t *testing.T) {
	d := newDataset(t, 40, same(64*72, 3000), 72*8, 256<<10)
	bubble.Test(t, func(t *testing.T) {
		store := distant(d)
		plan := d.plan(t, shuffle.Window, 4)
		var window []int
		for span := range plan.Epoch(0).Spans(0) {
			if span.From == 0 {
				window = append(window, int(span.Chunk))
			}
		}
		alone := d.download(t, store, window, len(window))
		first := d.firstBatches(t, store, plan, 1, 256)
		if most := 1.25; float64(first)/float64(alone) > most {
			t.Errorf("got the first batch in %v, its %d chunks alone take %v: want at most %.2f of that", first, len(window), alone, most)
		}
	})
}

// download reads chunks, n concurrently, and returns the duration.
func (d *dataset) download(t *testing.T, store objstore.RangeReader, chunks []int, n int) time.Duration {
	begin := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(chunks)); i = next.Add(1) - 1 {
				e := d.index.Extents(chunks[i])[0]
				shard := d.index.Shard(e.Shard)
				err := store.ReadRange(t.Context(), objstore.Ref{Key: "set/" + shard.Key, ETag: shard.ETag}, e.Offset, make([]byte, e.Length))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// firstBatches reads the first samples of epoch 0 in batches of 256, with readers that take turns,
// through a path with nothing in memory. It returns the duration.
func (d *dataset) firstBatches(t *testing.T, store objstore.RangeReader, plan *shuffle.Plan, readers int, samples uint64) time.Duration {
	p := newPath(t, Config{Budget: bud(64 << 20), PartSize: 512 << 10})
	s := p.Open(d.index, store, "set/")
	ctx, stop := context.WithCancel(t.Context())
	var run, wg sync.WaitGroup
	run.Go(func() { p.Run(ctx) })
	synctest.Wait() // wait until the memory is mapped
	e := plan.Epoch(0)
	begin := time.Now()
	var next atomic.Uint64
	for range readers {
		wg.Go(func() {
			for lo := next.Add(256) - 256; lo < samples; lo = next.Add(256) - 256 {
				hi := min(lo+256, plan.Samples())
				at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: hi, BatchSize: 256}
				body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, lo, hi)))
				if err != nil {
					t.Error(err)
					return
				}
				body.Close()
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	stop()
	run.Wait()
	return took
}

// A reader that has ended gives up its share of the memory to an active one; a slow reader keeps
// its share.
func TestReaderThatHasGoneGivesItsShareBack(t *testing.T) {
	d := newDataset(t, 41, same(960, 2000), 24*8, 64<<10) // 40 chunks of 24 samples; memory holds two windows, but not those of two readers
	for name, c := range map[string]struct {
		pause time.Duration // pause of the first reader between its batches
		kept  bool          // the first reader still has its share, when the second one begins three seconds after the first one's last batch
	}{
		"gone": {10 * time.Millisecond, false},
		"slow": {time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
				first, second := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
				plan := d.plan(t, shuffle.Window, 4)
				read := func(s *Source, lo uint64) {
					at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: lo, End: lo + 24, BatchSize: 24}
					body, err := s.Read(t.Context(), at, d.ranges(t, plan.Epoch(0).Append(nil, lo, lo+24)))
					must(t, err)
					body.Close()
				}
				for lo := range uint64(4) {
					read(first, lo*24)
					time.Sleep(c.pause)
				}
				time.Sleep(3*time.Second - c.pause)
				v := p.readers.Asked(second, shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 24, BatchSize: 24}, time.Now())
				if got := p.readers.NextUse(first, int(d.chunkOfFourth(plan))).Soon; got != c.kept {
					t.Errorf("got the first reader's chunks expected %v, want %v", got, c.kept)
				}
				v.Answered(time.Now())
				v.Ended(time.Now())
			})
		})
	}
}

// chunkOfFourth returns a chunk that the fourth batch of an epoch needs.
func (d *dataset) chunkOfFourth(plan *shuffle.Plan) uint64 {
	for span := range plan.Epoch(0).Spans(4*24 - 1) {
		return span.Chunk
	}
	return 0
}
