package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// gradual is a store that fills one slice after the other and reports each. Before each slice it
// calls next with the slice's offset, and fails if next returns an error. Bytes that it has not
// reported are then undefined.
type gradual struct {
	objstore.RangeReader
	next func(ctx context.Context, offset int64) error

	mu    sync.Mutex // guards reads
	reads []int64    // offsets of all reads
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

// samplesOf lists the samples of the given chunks.
func (d *dataset) samplesOf(chunks ...int) (samples []uint64) {
	for _, c := range chunks {
		desc := d.index.Chunk(c)
		for i := range uint64(desc.Samples) {
			samples = append(samples, desc.First+i)
		}
	}
	return samples
}

// result is the result of a read.
type result struct {
	body *batch.Body
	err  error
}

// reading starts a read of samples. The channel receives its result.
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

// failing returns a source whose reads of several chunks fail at the start of the first chunk,
// after fail is called.
func (d *dataset) failing(t *testing.T, err error) (p *Path, s *Source, store *gradual, fail func()) {
	release := make(chan struct{})
	store = &gradual{RangeReader: d.store, next: func(ctx context.Context, offset int64) error {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		if errors.Is(err, objstore.ErrShort) && offset > 0 {
			return nil
		}
		time.Sleep(time.Second)
		return err
	}}
	p = newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
	return p, p.Open(d.index, store, "set/"), store, func() { close(release) }
}

func TestStore_FailsOnlyTheChunkThatCannotBeRead(t *testing.T) {
	d := newDataset(t, 2, same(40, 100<<10), 40, 1<<20)
	bubble.Test(t, func(t *testing.T) {
		p, s, store, fail := d.failing(t, objstore.ErrShort)
		both := d.reading(t.Context(), t, s, d.samplesOf(0, 1))
		synctest.Wait()
		second := d.reading(t.Context(), t, s, d.samplesOf(1))
		synctest.Wait()
		fail()
		got := <-second
		if got.err != nil {
			t.Errorf("a batch of the second chunk got %v, want its bytes", got.err)
		} else {
			got.body.Close()
		}
		var where *chunkindex.RangeError
		if err := (<-both).err; !errors.As(err, &where) || where.Offset != 0 || where.Length != d.index.Extents(0)[0].Length {
			t.Errorf("a batch of both chunks got %v, want the error of the first chunk", err)
		}
		if n := store.counted(); n != 3 {
			t.Errorf("got %d store reads, want one of both chunks, and one of each", n)
		}
		for chunk, want := range []bool{true, false} {
			if got := p.failed.Paused(s.key(chunk), time.Now()); got != want {
				t.Errorf("chunk %d is skipped by prefetch: %v, want %v", chunk, got, want)
			}
		}
	})
}

func TestStore_ReadsOnlyWantedChunksOfAFailedGroupAgain(t *testing.T) {
	d := newDataset(t, 2, same(40, 100<<10), 40, 1<<20)
	bubble.Test(t, func(t *testing.T) {
		_, s, store, fail := d.failing(t, objstore.ErrShort)
		ctx, leave := context.WithCancel(t.Context())
		both := d.reading(ctx, t, s, d.samplesOf(0, 1))
		synctest.Wait()
		second := d.reading(t.Context(), t, s, d.samplesOf(1))
		synctest.Wait()
		leave()
		if err := (<-both).err; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		fail()
		got := <-second
		must(t, got.err)
		got.body.Close()
		if want := []int64{0, d.index.Extents(1)[0].Offset}; !slices.Equal(store.reads, want) {
			t.Errorf("got reads at %d, want %d", store.reads, want)
		}
	})
}

// If a store is down, a failed read of n chunks is followed by one read of each chunk, all
// concurrent. If the store throttles or has no such object, there is only the first read.
func TestStore_FailsSoonWhereTheWholeStoreFails(t *testing.T) {
	d := newDataset(t, 2, same(40, 100<<10), 40, 512<<10)
	chunks := make([]int, d.index.Chunks())
	for i := range chunks {
		chunks[i] = i
	}
	for err, want := range map[error]struct {
		reads int
		after time.Duration
	}{
		objstore.ErrUnavailable: {1 + len(chunks), 2 * time.Second},
		objstore.ErrThrottled:   {1, time.Second},
		objstore.ErrNotFound:    {1, time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			_, s, store, fail := d.failing(t, err)
			fail()
			begun := time.Now()
			got := <-d.reading(t.Context(), t, s, d.samplesOf(chunks...))
			if took := time.Since(begun); !errors.Is(got.err, err) || took != want.after || store.counted() != want.reads {
				t.Errorf("got %v after %v and %d reads, want %v after %v and %d", got.err, took, store.counted(), err, want.after, want.reads)
			}
		})
	}
}
