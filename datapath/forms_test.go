package datapath

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// readBatch reads samples of epoch 0 in stored order.
func (d *dataset) readBatch(t *testing.T, s *Source, lo, hi uint64) error {
	t.Helper()
	plan := d.plan(t, shuffle.None, 0)
	e := plan.Epoch(0)
	chunks := d.ranges(t, e.Append(nil, lo, hi))
	body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: hi, BatchSize: hi - lo}, chunks)
	if err != nil {
		return err
	}
	must(t, d.check(chunks, body))
	body.Close()
	return nil
}

// A request for some samples of a chunk of many objects reads only those objects, each once and
// under its own ETag.
func TestObjectsAreReadOneByOne(t *testing.T) {
	d := newDatasetOf(t, objects, 60, same(100, 999), 1, 50_000)
	if got, want := d.index.ExtentCount(0), 50; got != want {
		t.Fatalf("got %d extents of a chunk, want %d", got, want)
	}
	p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	must(t, d.readBatch(t, s, 40, 60))
	if got := p.Stats(); got.StoreReads != 20 || got.StoreBytes != 20_000 || got.RangeReads != 20 {
		t.Errorf("got %d reads of %d bytes, want one of each of 20 objects", got.StoreReads, got.StoreBytes)
	}
	must(t, d.readBatch(t, s, 0, 50)) // all samples of a chunk
	must(t, d.readBatch(t, s, 3, 9))
	if got := p.Stats(); got.StoreReads != 70 || got.Hits != 1 || got.Loads != 1 {
		t.Errorf("got %d reads, %d hits and %d loads, want 70, 1 and 1: the chunk is in memory", got.StoreReads, got.Hits, got.Loads)
	}
	d.store.Set("set/s00063.jpg", make([]byte, 1000))
	for _, batch := range [][2]uint64{{60, 70}, {50, 100}} { // by the samples' ranges, and as a whole chunk
		err := d.readBatch(t, s, batch[0], batch[1])
		wantExtent(t, d, err, objstore.ErrChanged, 63, 1000)
	}
	must(t, d.readBatch(t, s, 64, 100))
}

func wantExtent(t *testing.T, d *dataset, err, want error, shard int, length int64) {
	t.Helper()
	var where *chunkindex.RangeError
	if !errors.As(err, &where) || !errors.Is(err, want) {
		t.Fatalf("got %v, want a RangeError of %v", err, want)
	}
	if where.Shard != shard || where.Key != d.index.Shard(shard).Key || where.Length != length {
		t.Errorf("got %v, want %v at all %d bytes of shard %d", err, want, length, shard)
	}
}

// If objects of a chunk differ from the index, the error names the wrong object.
func TestTheObjectThatIsWrongIsNamed(t *testing.T) {
	for form, read := range map[string][2]uint64{"its chunk": {0, 50}, "by itself": {30, 40}} {
		t.Run(form, func(t *testing.T) {
			d := newDatasetOf(t, objects, 61, same(50, 999), 1, 50_000)
			wrong := 0
			d.store.SetFault(func(c memstore.Call) (f memstore.Fault) {
				if c.Key == "set/s00033.jpg" {
					wrong++
					f.Corrupt = func(b []byte) { b[7] ^= 1 }
				}
				return f
			})
			p := newPath(t, Config{Budget: bud(8 << 20), Fetchers: 1, NoPrefetch: true})
			err := d.readBatch(t, p.Open(d.index, d.store, "set/"), read[0], read[1])
			wantExtent(t, d, err, chunkindex.ErrCorrupt, 33, 1000)
			if wrong != 2 {
				t.Errorf("got %d reads of the object, want 2", wrong)
			}
		})
	}
}

// The objects of a chunk are read concurrently, up to the gate's limit, both for requests and for
// prefetches.
func TestObjectsOfAChunkAreReadSideBySide(t *testing.T) {
	d := newDatasetOf(t, objects, 62, same(60, 999), 1, 1<<20)
	for _, ahead := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			d.store.Reset()
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: 20 * time.Millisecond} })
			defer d.store.SetFault(nil)
			p := newPath(t, Config{Budget: bud(8 << 20), Fetchers: 6})
			s := p.Open(d.index, counting{d.store, &now, &most}, "set/")
			begin := time.Now()
			if ahead {
				must(t, p.aheadOf(t, s, 0))
			} else {
				must(t, d.readBatch(t, s, 0, 60))
			}
			if got, want := time.Since(begin), 10*20*time.Millisecond; got != want || most.Load() != 6 {
				t.Errorf("ahead=%v: got %v and %d reads at once, want %v and 6", ahead, got, most.Load(), want)
			}
		})
	}
}

// counting is a store that counts the running reads.
type counting struct {
	*memstore.Store
	now, most *atomic.Int64
}

func (c counting) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return c.Store.ReadRange(ctx, ref, offset, dst...)
}

// aheadOf prefetches a chunk as if a reader needed it soon.
func (p *Path) aheadOf(t *testing.T, s *Source, chunk int) error {
	f := &fetch{load: load{source: s, held: s.path.gate}, chunks: []int{chunk}}
	if !p.gate.enterAhead(1) {
		t.Fatal("got no place of an idle gate")
	}
	defer p.gate.leaveAhead(false)
	wait, err := p.cache.Start(t.Context(), f.request())
	if err != nil {
		return err
	}
	l, err := wait()
	if err == nil {
		l.Close()
	}
	return err
}

// Adjacent or close extents of one shard are read in one store read.
func TestNearPiecesAreOneRead(t *testing.T) {
	ext := func(shard int, offset, length int64) piece {
		return piece{ext: chunkindex.Extent{Shard: shard, Offset: offset, Length: length}, dst: make([]byte, length)}
	}
	ps := []piece{ext(0, 0, 1000), ext(0, 1000, 1000), ext(0, 2100, 1000), ext(1, 3100, 10), ext(1, 9000, 10)}
	stretches := join(ps, 1<<20, nil)
	if len(stretches) != 3 || len(stretches[0].pieces) != 3 || stretches[0].ext().Length != 3100 {
		t.Fatalf("got %d stretches, the first of %d pieces, want 3 and 3", len(stretches), len(stretches[0].pieces))
	}
	var n int
	for _, b := range stretches[0].into() {
		n += len(b)
	}
	if n != 3100 {
		t.Errorf("a read of 3100 bytes has memory for %d", n)
	}
}

// If stored bytes cannot be decoded, or decode to wrong bytes, they are read once more.
func TestCompressedChunksThatAreWrong(t *testing.T) {
	for _, form := range []string{gzips, zstds} {
		for place, at := range map[string]func(n int) int{"magic": func(int) int { return 0 }, "middle": func(n int) int { return n / 2 }} {
			for times, want := range map[int]error{1: nil, 2: chunkindex.ErrCorrupt} {
				d := newDatasetOf(t, form, 64, same(8, 1000), 8, 1<<20)
				reads := 0
				d.store.SetFault(func(memstore.Call) (f memstore.Fault) {
					if reads++; reads <= times {
						f.Corrupt = func(b []byte) { b[at(len(b))] ^= 0xff }
					}
					return f
				})
				p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
				err := d.readBatch(t, p.Open(d.index, d.store, "set/"), 0, 4)
				if !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("%s, %s, wrong %d times: got %v, want %v", form, place, times, err, want)
				}
				if want != nil {
					wantExtent(t, d, err, want, 0, d.index.Chunk(0).Stored)
				}
				if reads != 2 {
					t.Errorf("%s, %s, wrong %d times: got %d reads, want 2", form, place, times, reads)
				}
			}
		}
	}
}

// The memory to decode a chunk is reserved with the chunk, or when its dataset is opened. If that
// leaves no room for a batch, the batch is rejected.
func TestMemoryToDecodeIn(t *testing.T) {
	d := newDatasetOf(t, gzips, 65, same(40, 10_000), 10, 1<<20) // 4 chunks
	c := d.index.Chunk(0)
	sample := c.Length / 10
	for _, b := range []struct {
		name  string
		total int64
		step  uint64
		want  error
	}{
		{"room for a chunk, its stored bytes and these", 2*chunkcache.Cost(c.Length) + 2*chunkcache.Cost(c.Stored), 10, nil},
		{"room for a body and these", c.Length + c.Stored + 4*sample + 4<<10, 1, nil},
		{"room for a part", c.Length + c.Stored - 1, 10, budget.ErrTooLarge},
	} {
		t.Run(b.name, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(b.total), NoPrefetch: true})
			s := p.Open(d.index, d.store, "set/")
			for lo := uint64(0); lo < 38; lo += b.step {
				if err := d.readBatch(t, s, lo, lo+2); !errors.Is(err, b.want) || (err == nil) != (b.want == nil) {
					t.Fatalf("samples %d and %d: got %v, want %v", lo, lo+1, err, b.want)
				}
			}
			if got := p.Stats().BudgetPeak; got > b.total {
				t.Errorf("got a peak of %d bytes, want %d at most", got, b.total)
			}
		})
	}
}

// Many requests that need more decoding memory together than there is use it one after another.
func TestDecodersDoNotWaitForEachOther(t *testing.T) {
	d := newDatasetOf(t, gzips, 66, same(80, 5000), 10, 1<<20)
	c := d.index.Chunk(0)
	bubble.Test(t, func(t *testing.T) {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: 10 * time.Millisecond} })
		defer d.store.SetFault(nil)
		p := newPath(t, Config{Budget: budget.New(2*(c.Length+c.Stored), time.Minute), NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		var readers sync.WaitGroup
		for i := range uint64(78) {
			readers.Go(func() {
				if err := d.readBatch(t, s, i, i+2); err != nil { // one or two chunks
					t.Error(err)
				}
			})
		}
		readers.Wait()
	})
}

// Ranks that request faster than the store answers do not prevent prefetching of chunks of many
// objects: all chunks that fit are in memory at the end.
func TestObjects_PrefetchedDuringReads(t *testing.T) {
	d := newDatasetOf(t, objects, 67, same(2000, 999), 1, 50_000)
	bubble.Test(t, func(t *testing.T) {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: 20 * time.Millisecond} })
		defer d.store.SetFault(nil)
		p := newPath(t, Config{Budget: bud(8 << 20)})
		s := p.Open(d.index, d.store, "set/")
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { p.Run(ctx) })
		plan := d.plan(t, shuffle.Slot, 8)
		var before uint64
		for epoch := range uint64(7) {
			before = p.Stats().StoreReads
			var ranks sync.WaitGroup
			for rank := range uint64(4) {
				ranks.Go(func() {
					e := plan.Epoch(epoch)
					for lo := uint64(0); lo < 2000; lo += 200 {
						at := shuffle.Cursor{Plan: plan, Epoch: e, First: lo, End: lo + 200, BatchSize: 200, Rank: rank, WorldSize: 4}
						chunks := d.ranges(t, e.Append(nil, lo+50*rank, lo+50*rank+50))
						body, err := s.Read(t.Context(), at, chunks)
						must(t, err)
						must(t, d.check(chunks, body))
						body.Close()
					}
				})
			}
			ranks.Wait()
		}
		if got := p.Stats().StoreReads - before; got > 500 {
			t.Errorf("got %d reads in the last of seven epochs, want a quarter of the 2000 objects at most: there is room for all", got)
		}
		stop()
		run.Wait()
	})
}
