package datapath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// A prefetch returns its place and ends its use of the source, with any result.
func TestPrefetch_GivesItsPlaceBack(t *testing.T) {
	d := newDataset(t, 330, same(40, 3000), 20, 10_000)
	for name, c := range map[string]struct {
		before  func(p *Path, s *Source) (after func())
		started bool
		brought uint64
		told    bool // Run is woken to start another read
	}{
		"brought":       {func(*Path, *Source) func() { return func() {} }, true, 2, true},
		"closed before": {func(_ *Path, s *Source) func() { s.Close(); return func() {} }, false, 0, false},
		"given up meanwhile": {func(p *Path, s *Source) func() {
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Stall: true} })
			return p.giveUp // no reader needs the chunks
		}, true, 0, true},
		"the store fails": {func(*Path, *Source) func() {
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrDenied} })
			return func() {}
		}, true, 0, true},
		"no memory": {func(p *Path, _ *Source) func() {
			all, err := p.budget.Reserve(t.Context(), p.budget.Total())
			must(t, err)
			return all.Release
		}, false, 0, false},
		"memory for one of two": {func(p *Path, s *Source) func() {
			all, err := p.budget.Reserve(t.Context(), p.budget.Total()-s.Cost(0)-s.Cost(1)/2)
			must(t, err)
			return all.Release
		}, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				defer d.store.SetFault(nil)
				p := newPath(t, Config{Budget: bud(8 << 20)})
				s := p.Open(d.index, d.store, "set/")
				if !p.gate.enterAhead(1) {
					t.Fatal("got no place ahead")
				}
				after := c.before(p, s)
				for len(p.kick) > 0 {
					<-p.kick
				}
				var started sync.WaitGroup
				if got := p.start(t.Context(), s, []int{0, 1}, p.gate, &started); got != c.started {
					t.Errorf("got all started: %v, want %v", got, c.started)
				}
				synctest.Wait()
				after()
				started.Wait()
				synctest.Wait()
				if got := p.Stats().PrefetchedChunks; got != c.brought || (len(p.kick) > 0) != c.told {
					t.Errorf("got %d chunks brought, Run told: %v; want %d and %v", got, len(p.kick) > 0, c.brought, c.told)
				}
				p.idle(t, "ended")
			})
		})
	}
}

// A peer gets a chunk from disk if there is memory for it and the chunk on disk is complete.
// Otherwise nothing is kept in memory for it.
func TestAnswer_WholeChunkOfTheDisk(t *testing.T) {
	d := newDataset(t, 331, same(40, 3000), 10, 1<<20)
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, dir, 4<<20, Config{Budget: bud(1 << 20), Peers: alone{}, NoPrefetch: true}, func(p *Path) {
			s := d.opened(p, "here")
			s.Share("set")
			d.readEpoch(t, s, d.plan(t, shuffle.None, 0), 0, 20)
			synctest.Wait()
			for p.Stats().Disk.Chunks < int64(d.index.Chunks()) {
				time.Sleep(time.Millisecond)
			}
			p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
			q, r := d.whole(0)
			ask := func(when string, want error) {
				t.Helper()
				body, err := p.answer(t.Context(), q)
				if !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Fatalf("%s: got %v, want %v", when, err, want)
				}
				if err == nil {
					must(t, d.compare([]batch.ChunkRanges{{Chunk: 0, Ranges: []batch.Range{r}}}, body))
					body.Close()
				}
				p.idle(t, when)
				if got := p.budget.InUse() - p.cache.Free() - p.tables.Bytes(); when != "no memory" && got != 0 {
					t.Errorf("%s: got %d bytes in use, want none", when, got)
				}
			}
			ask("on disk", nil)
			all, err := p.budget.Reserve(t.Context(), p.budget.Total())
			must(t, err)
			ask("no memory", peer.ErrNoRoom)
			all.Release()
			must(t, filepath.Walk(filepath.Join(dir, "chunks"), func(name string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() {
					return err
				}
				return os.Truncate(name, 10)
			}))
			ask("damaged", peer.ErrNotHere)
			ask("gone", peer.ErrNotHere)
		})
	})
}

// Batches that wait for owners take turns, limited by their bytes, and no batch waits forever.
func TestAskLimit_TurnsComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAskLimit(200) // limits the batches to 100 bytes
		whole := a.enter(t.Context(), 1000)
		ended, end := context.WithCancel(t.Context())
		end()
		for name, c := range map[string]struct {
			ctx  context.Context
			took time.Duration
		}{"waits": {t.Context(), budget.DefaultWait}, "has gone": {ended, 0}} {
			begun := time.Now()
			without := a.enter(c.ctx, 50)
			if took := time.Since(begun); took != c.took {
				t.Errorf("%s: asked after %v, want %v", name, took, c.took)
			}
			without()
		}
		if a.bytes.TryAcquire(1) {
			t.Error("got a turn that is taken: one who asks without a turn has given one back")
		}
		time.AfterFunc(time.Second, whole)
		begun := time.Now()
		half := a.enter(t.Context(), 50)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("got a turn after %v, want 1s", took)
		}
		other := a.enter(t.Context(), 50)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("got the other half after %v, want it at once", took)
		}
		half()
		other()
		if !a.bytes.TryAcquire(a.max) {
			t.Error("got turns missing in the end")
		}
	})
}

// Requests for data that the index does not contain are rejected with an error, and reserve
// nothing.
func TestSource_RefusesUnknownRanges(t *testing.T) {
	d := newDataset(t, 332, same(40, 3000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	length := uint32(d.index.Chunk(0).Length)
	for name, c := range map[string]struct {
		chunks []batch.ChunkRanges
		want   error // nil: any error
	}{
		"chunk -1":         {[]batch.ChunkRanges{{Chunk: -1}}, nil},
		"chunk behind all": {[]batch.ChunkRanges{{Chunk: d.index.Chunks()}}, nil},
		"a byte too many":  {[]batch.ChunkRanges{{Chunk: 0, Ranges: []batch.Range{{Offset: 1, Length: length}}}}, chunkindex.ErrCorrupt},
		"an offset behind": {[]batch.ChunkRanges{{Chunk: 0, Ranges: []batch.Range{{Offset: length + 1}}}}, chunkindex.ErrCorrupt},
	} {
		if _, err := s.Read(t.Context(), shuffle.Cursor{}, c.chunks); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		p.idle(t, name)
	}
	if got := d.store.Stats().Total; got != 0 {
		t.Errorf("got %d requests to the store, want none", got)
	}
}

// An open dataset takes its table of chunks, and memory for its largest compressed chunk if there
// is one.
func TestTakes(t *testing.T) {
	plain, packed := newDataset(t, 333, same(40, 3000), 10, 1<<20), newDatasetOf(t, gzips, 334, same(40, 3000), 10, 1<<20)
	if table, decoding := Takes(plain.index); table != 8*int64(plain.index.Chunks()) || decoding != 0 {
		t.Errorf("got %d and %d bytes, want 8 for each of %d chunks and none", table, decoding, plain.index.Chunks())
	}
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(packed.index, packed.store, "set/")
	if _, decoding := Takes(packed.index); decoding != p.budget.InUse() || decoding == 0 {
		t.Errorf("got %d bytes to decode in, want the %d that are taken when the dataset is opened", decoding, p.budget.InUse())
	}
	s.Close()
}

// A peer may request samples and whole chunks. Any other range has no checksum, so it is rejected.
func TestResolve_FindsTheSumOfEachRange(t *testing.T) {
	d := newDataset(t, 335, []int{3000, 0, 900, 3000}, 4, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	table, err := d.index.Table(t.Context(), 0)
	must(t, err)
	length := uint32(d.index.Chunk(0).Length)
	sums := map[batch.Range]uint32{{Length: length}: d.index.Chunk(0).CRC32C}
	for i := range table.Len() {
		offset := table.Offset(i)
		sums[batch.Range{Offset: offset, Length: table.Length(i)}] = table.CRC32C(i)
	}
	for r, want := range sums {
		b := &request{chunks: []batch.ChunkRanges{{Ranges: []batch.Range{r}}}}
		if err := s.resolve(t.Context(), b); err != nil || b.chunks[0].Ranges[0].CRC32C != want {
			t.Errorf("%d bytes at %d: got sum %x, %v, want %x", r.Length, r.Offset, b.chunks[0].Ranges[0].CRC32C, err, want)
		}
	}
	last := table.Offset(3)
	for _, r := range []batch.Range{
		{Offset: table.Offset(0), Length: table.Length(0) - 1}, {Offset: table.Offset(2) + 1, Length: 1}, {Offset: last + 1, Length: 1}, {Length: length - 1},
		{Offset: 1, Length: length - 1},
	} {
		b := &request{chunks: []batch.ChunkRanges{{Ranges: []batch.Range{r}}}}
		if err := s.resolve(t.Context(), b); !errors.Is(err, peer.ErrMismatch) {
			t.Errorf("%d bytes at %d: got %v, want %v", r.Length, r.Offset, err, peer.ErrMismatch)
		}
	}
}

// Only the requested samples are fetched from a peer, and batches find exactly these samples.
func TestReadAhead_FindsLoadedSamples(t *testing.T) {
	d := newDatasetOf(t, tars, 336, []int{3000, 900, 3000, 900}, 2, 1<<20)
	peers := &scripted{dataset: d, answers: map[string]answerScript{"a": sends}}
	p := newPath(t, Config{Budget: bud(1 << 20), Peers: peers, NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	s.Share("set")
	far := s.farOf(t.Context(), []uint64{3, 0, 2})
	if len(far.chunks) != 2 || far.origin != ofRun || far.bytes != int64(far.chunks[0].Ranges[0].Length)+bytesOf(far.chunks[1]) {
		t.Fatalf("got %+v, want one sample of the first chunk and two of the second", far)
	}
	e := s.early(t.Context(), far)
	if e == nil || e.sole() != true {
		t.Fatal("got no extract that only the caller pins")
	}
	for sample, want := range []bool{true, false, true, true} {
		chunk := d.index.ChunkOf(uint64(sample))
		table, err := d.index.Table(t.Context(), chunk)
		must(t, err)
		i := uint64(sample) - d.index.Chunk(chunk).First
		r := batch.Range{Offset: table.Offset(int(i)), Length: table.Length(int(i))}
		got := p.extracts.find(samplePlace{s, chunk, r.Offset, r.Length, true})
		if (got != nil) != want || want && string(got.data) != string(d.stored(chunk, r)) {
			t.Errorf("sample %d: got %+v, want it sent: %v", sample, got, want)
		}
	}
	e.unpin()
	if n := p.extracted(); n != 0 {
		t.Errorf("got %d samples after the run, want none", n)
	}
	if got := s.farOf(t.Context(), nil); len(got.chunks) != 0 {
		t.Errorf("got %+v for no samples, want nothing", got)
	}
}
