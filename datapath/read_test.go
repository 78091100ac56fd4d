package datapath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Each of two datasets fits into memory, but not both together. A batch of one of them does not
// load whole chunks.
func TestTwoDataSetsThatDoNotFitTogether(t *testing.T) {
	d := newDataset(t, 3, same(1200, 3000), 100, 256<<10)
	p := newPath(t, Config{Budget: bud(d.index.Bytes() * 2)})
	plan := d.plan(t, shuffle.Full, 0)
	first, second := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	e := plan.Epoch(0)
	for lo := uint64(0); lo < plan.Samples(); lo += 20 {
		for _, s := range []*Source{first, second} {
			at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: lo + 20, BatchSize: 20}
			body, err := s.Read(t.Context(), at, d.ranges(t, e.Append(nil, lo, lo+20)))
			must(t, err)
			body.Close()
		}
	}
	if got, most := d.store.Stats().BytesRead, 2*d.index.Bytes()*13/10; got > most {
		t.Errorf("got %d bytes from the store for two epochs of %d, want at most %d", got, d.index.Bytes(), most)
	}
}

func TestNoCacheTooSmallReadsMuchMoreThanTheData(t *testing.T) {
	d := newDataset(t, 4, same(2000, 3000), 100, 64<<10)
	data := d.index.Bytes()
	for _, name := range []string{shuffle.Window, shuffle.Slot} {
		t.Run(name, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(data / 20)}) // a window is a third of the data
			d.readEpoch(t, p.Open(d.index, d.store, "set/"), d.plan(t, name, uint64(d.index.Chunks()/3)), 0, 32)
			if got, most := d.store.Stats().BytesRead, data*13/10; got > most {
				t.Errorf("got %d bytes from the store for %d of data, want at most %d", got, data, most)
			}
			d.store.Reset()
		})
	}
}

func TestBatchLargerThanTheBudget(t *testing.T) {
	d := newDataset(t, 5, same(40, 4000), 40, 16<<10)
	p := newPath(t, Config{Budget: bud(50 << 10)})
	s := p.Open(d.index, d.store, "set/")
	samples := make([]uint64, 40)
	for i := range samples {
		samples[i] = uint64(i)
	}
	if _, err := s.Read(t.Context(), shuffle.Cursor{}, d.ranges(t, samples)); !errors.Is(err, budget.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, budget.ErrTooLarge)
	}
	if got := d.store.Stats().Total; got != 0 {
		t.Errorf("got %d store requests, want none", got)
	}
}

func TestStoreErrorsNameTheRange(t *testing.T) {
	d := newDataset(t, 6, same(200, 2000), 50, 32<<10)
	flip := func(b []byte) { b[len(b)/2] ^= 1 }
	for _, c := range []struct {
		name  string
		fault func(n int) memstore.Fault
		want  error
		reads int
	}{
		{"changed", func(int) memstore.Fault { return memstore.Fault{Err: objstore.ErrChanged} }, objstore.ErrChanged, 1},
		{"short", func(int) memstore.Fault { return memstore.Fault{After: 10, Err: objstore.ErrShort} }, objstore.ErrShort, 1},
		{"wrong once", func(n int) memstore.Fault {
			if n > 0 {
				return memstore.Fault{}
			}
			return memstore.Fault{Corrupt: flip}
		}, nil, 2},
		{"wrong twice", func(int) memstore.Fault { return memstore.Fault{Corrupt: flip} }, chunkindex.ErrCorrupt, 2},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/whole=%v", c.name, whole), func(t *testing.T) {
				d.store.Reset()
				d.store.SetFault(func(call memstore.Call) memstore.Fault { return c.fault(call.N) })
				defer d.store.SetFault(nil)
				p := newPath(t, Config{Budget: bud(1 << 20)})
				s := p.Open(d.index, d.store, "set/")
				var at shuffle.Cursor
				if whole {
					plan := d.plan(t, shuffle.None, 0)
					at = shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: 60, End: 61, BatchSize: 1}
				}
				chunks := d.ranges(t, []uint64{60})
				body, err := s.Read(t.Context(), at, chunks)
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if err == nil {
					must(t, d.check(chunks, body))
					body.Close()
				} else {
					var where *chunkindex.RangeError
					if !errors.As(err, &where) {
						t.Fatalf("got %v, want a RangeError", err)
					}
					e := d.index.Extents(chunks[0].Chunk)[0]
					sample := e.Offset + int64(chunks[0].Ranges[0].Offset)
					if where.Shard != e.Shard || where.Key != d.index.Shard(e.Shard).Key ||
						where.Offset > sample || where.Offset+where.Length < sample+int64(chunks[0].Ranges[0].Length) {
						t.Errorf("got %v, want a range that holds %d of shard %d", where, sample, e.Shard)
					}
				}
				if got := d.store.Stats().Total; got != c.reads {
					t.Errorf("got %d store reads, want %d", got, c.reads)
				}
			})
		}
	}
}

// A digest in an index is only a claim: two datasets share a chunk only if its digest was compared.
func TestTwoNamesShareOneChunk(t *testing.T) {
	d := newDataset(t, 7, same(4, 1000), 4, 1<<20)
	for check, want := range map[bool]int{true: 1, false: 2} {
		t.Run(fmt.Sprintf("check=%v", check), func(t *testing.T) {
			d.store.Reset()
			p := newPath(t, Config{Budget: bud(1 << 20), CheckSHA: check})
			plan := d.plan(t, shuffle.None, 0)
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 1, BatchSize: 1}
			for _, s := range []*Source{p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")} {
				body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{0}))
				must(t, err)
				body.Close()
			}
			if got := d.store.Stats().Total; got != want {
				t.Errorf("got %d store reads, want %d", got, want)
			}
		})
	}
}

// Within a dataset, two shards with the same bytes share their chunks in memory.
func TestTwoShardsOfTheSameBytesShareOneChunk(t *testing.T) {
	d := newDataset(t, 7, same(4, 1000), 4, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	if a, b := s.key(0), p.Open(d.index, d.store, "set/").key(0); a == b {
		t.Errorf("got one key %v for two sources, want two", a)
	}
	if a, b := s.key(0), s.key(0); a != b {
		t.Errorf("got two keys %v and %v for one chunk of a source, want one", a, b)
	}
}

// With CheckSHA, chunks that one generation has in memory serve the next generation without store
// reads. Otherwise each generation loads its own chunks.
func TestNewGeneration_SharesChunks(t *testing.T) {
	d := newDataset(t, 9, same(40, 1000), 4, 1<<20)
	for _, proved := range []bool{true, false} {
		p := newPath(t, Config{Budget: bud(1 << 20), CheckSHA: proved, NoPrefetch: true})
		plan := d.plan(t, shuffle.Window, 10)
		read := func(s *Source) {
			for lo := uint64(0); lo < 40; lo += 4 {
				at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: lo, End: lo + 4, BatchSize: 4}
				body, err := s.Read(t.Context(), at, d.ranges(t, plan.Epoch(0).Append(nil, lo, lo+4)))
				must(t, err)
				body.Close()
			}
		}
		read(p.Open(d.index, d.store, "set/"))
		before := p.Stats()
		grown := p.Open(d.index, d.store, "set/")
		read(grown)
		after := p.Stats()
		if got := after.StoreReads == before.StoreReads; got != proved || after.Misses == before.Misses != proved {
			t.Errorf("proved %v: got %d store reads and %d misses for chunks in memory, want some only without CheckSHA",
				proved, after.StoreReads-before.StoreReads, after.Misses-before.Misses)
		}
		if !grown.chunks.Resident(0) {
			t.Error("the chunks that were read are not found")
		}
	}
}

// The read of a reader's first batch is spread over most of the fetchers; later chunks are read in
// one piece.
func TestFirstBatchIsReadInParts(t *testing.T) {
	d := newDataset(t, 8, same(40, 10000), 10, 1<<20) // four chunks of about 107 KB
	p := newPath(t, Config{Budget: bud(4 << 20), Fetchers: 12, PartSize: 128 << 10, NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	plan := d.plan(t, shuffle.None, 0)
	for i, want := range []int{7, 8} { // 107,520 bytes in parts of about 16 KiB, then one more chunk
		lo := uint64(10 * i)
		body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: lo, End: lo + 10, BatchSize: 10},
			d.ranges(t, plan.Epoch(0).Append(nil, lo, lo+10)))
		must(t, err)
		body.Close()
		if got := d.store.Stats().Requests[memstore.Read]; got != want {
			t.Errorf("got %d store reads after batch %d, want %d", got, i, want)
		}
	}
}

func TestChunkLargerThanAPartIsReadInParts(t *testing.T) {
	d := newDataset(t, 8, same(10, 10000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20), PartSize: 20000, Fetchers: 1}) // one fetcher: nothing to spread a first batch over
	d.readEpoch(t, p.Open(d.index, d.store, "set/"), d.plan(t, shuffle.None, 0), 0, 10)
	if got, want := d.store.Stats().Total, 6; got != want { // 10 samples of 10,752 bytes
		t.Errorf("got %d store reads, want %d", got, want)
	}
}

// A load continues for its second waiter when the reader that started it leaves.
func TestLoadOutlivesItsFirstReader(t *testing.T) {
	d := newDataset(t, 9, same(4, 1000), 4, 1<<20)
	chunks := d.ranges(t, []uint64{1, 2})
	plan := d.plan(t, shuffle.None, 0)
	at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 4, BatchSize: 4}
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(1 << 20)})
		s := p.Open(d.index, d.store, "set/")
		release := make(chan struct{})
		d.store.SetFault(func(memstore.Call) memstore.Fault {
			return memstore.Fault{Before: func() { <-release }}
		})
		defer d.store.SetFault(nil)
		ctx, leave := context.WithCancel(t.Context())
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = s.Read(ctx, at, chunks) })
		synctest.Wait()
		wg.Go(func() {
			body, err := s.Read(t.Context(), at, chunks)
			if errs[1] = err; err == nil {
				errs[1] = d.check(chunks, body)
				body.Close()
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		wg.Wait()
		if !errors.Is(errs[0], context.Canceled) || errs[1] != nil {
			t.Errorf("got %v and %v, want %v and no error", errs[0], errs[1], context.Canceled)
		}
		if got := p.Stats(); got.StoreReads != 1 || got.Joins != 1 {
			t.Errorf("got %d store reads and %d joins, want 1 and 1", got.StoreReads, got.Joins)
		}
	})
}
