package datapath

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// gradual is a store that fills one slice after the other and reports each. Before each it calls next with the offset of the slice, and
// fails if that does. What it has not reported is undefined then.
type gradual struct {
	objstore.RangeReader
	next func(ctx context.Context, offset int64) error

	mu    sync.Mutex // guards reads
	reads []int64    // the offsets of all reads
}

func (g *gradual) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	g.mu.Lock()
	g.reads = append(g.reads, offset)
	g.mu.Unlock()
	var filled int64
	for i, b := range dst {
		err := g.next(ctx, offset+filled)
		if err == nil {
			err = g.RangeReader.ReadRange(ctx, ref, offset+filled, b)
		}
		if err != nil {
			for _, b := range dst[i:] {
				clear(b)
			}
			return err
		}
		filled += int64(len(b))
		objstore.Progress(ctx)(filled)
	}
	return nil
}

// counted returns the number of reads.
func (g *gradual) counted() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.reads)
}

// samplesOf lists the samples of chunks.
func (d *dataset) samplesOf(chunks ...int) (samples []uint64) {
	for _, c := range chunks {
		desc := d.index.Chunk(c)
		for i := range uint64(desc.Samples) {
			samples = append(samples, desc.First+i)
		}
	}
	return samples
}

// result is how a read has ended.
type result struct {
	body *chunkindex.Body
	err  error
}

// reading starts a read of samples; the channel gets its end.
func (d *dataset) reading(ctx context.Context, t *testing.T, s *Source, samples []uint64) <-chan result {
	ended := make(chan result, 1)
	chunks := d.ranges(t, samples)
	go func() {
		body, err := s.Read(ctx, shuffle.Cursor{}, chunks)
		if err == nil {
			err = d.compare(chunks, body)
		}
		ended <- result{body, err}
	}()
	return ended
}

func TestStore_PublishesAChunkBeforeTheRestOfItsGroup(t *testing.T) {
	d := newDataset(t, 2, same(40, 100<<10), 40, 1<<20) // chunks of one shard
	bubble.Test(t, func(t *testing.T) {
		second, release := d.index.Extents(1)[0].Offset, make(chan struct{})
		store := &gradual{RangeReader: d.store, next: func(_ context.Context, offset int64) error {
			if offset == second {
				<-release
			}
			return nil
		}}
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
		s := p.Open(d.index, store, "set/")
		both := d.reading(t.Context(), t, s, d.samplesOf(0, 1))
		synctest.Wait()
		first := d.reading(t.Context(), t, s, d.samplesOf(0))
		synctest.Wait()
		select {
		case got := <-first:
			must(t, got.err)
			got.body.Close()
		default:
			t.Error("a batch of the chunk that has come waits for the other chunk of the read")
			defer func() { (<-first).body.Close() }()
		}
		close(release)
		got := <-both
		must(t, got.err)
		got.body.Close()
		if n := store.counted(); n != 1 {
			t.Errorf("got %d store reads, want one", n)
		}
	})
}
