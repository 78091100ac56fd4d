package datapath

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// TestSource_WholeChunkPaysAgainstReads checks that a chunk is read whole if its unneeded bytes
// cost less than the saved reads.
func TestSource_WholeChunkPaysAgainstReads(t *testing.T) {
	for form, spared := range map[string]int64{tars: 2, objects: 0} { // number of reads, of three samples, that a whole chunk saves
		d := newDatasetOf(t, form, 1, same(3, 100<<10), 3, 1<<20)
		p := newPath(t, Config{Budget: bud(8 << 20)})
		s := p.Open(d.index, d.store, "set/")
		for range policy.RatedReads {
			p.rates.note(0, 1<<20, time.Second)
		}
		if got := p.rates.cost(); got != policy.LeastReadCost {
			t.Fatalf("got a cost of %d for a read, want %d", got, policy.LeastReadCost)
		}
		bound := d.index.Chunk(0).Stored - spared*policy.LeastReadCost
		for bytes, want := range map[int64]bool{bound: false, bound + 1: true} {
			if got := s.wholePays(0, bytes, 3); got != want {
				t.Errorf("%s: %d of %d bytes: got a whole chunk: %v, want %v", form, bytes, d.index.Chunk(0).Stored, got, want)
			}
		}
		for samples, want := range map[uint64]bool{0: false, 1: false, 3: true, 4: true} {
			if got := s.worth(0, samples); got != want {
				t.Errorf("%s: %d of 3 samples: got a whole chunk: %v, want %v", form, samples, got, want)
			}
		}
	}
	packed := newDatasetOf(t, gzips, 1, same(3, 3000), 3, 1<<20)
	p := newPath(t, Config{Budget: bud(8 << 20)})
	if s := p.Open(packed.index, packed.store, "set/"); !s.worth(0, 0) {
		t.Error("got a compressed chunk read by samples")
	}
}

// TestPath_FirstPartFillsTheIdleLine checks that the chunks of a first batch are read in as many
// parts as there are places. Each part is at least an eighth of the configured part size, and at
// most the whole of it.
func TestPath_FirstPartFillsTheIdleLine(t *testing.T) {
	for _, c := range []struct {
		part, total int64
		want        func(streams int64) int64
	}{
		{1 << 20, 0, func(int64) int64 { return 1 << 17 }},
		{1 << 20, 4 << 20, func(streams int64) int64 { return (4 << 20) / streams }},
		{1 << 20, 1 << 40, func(int64) int64 { return 1 << 20 }},
		{4, 0, func(int64) int64 { return 1 }},
	} {
		for _, fetchers := range []int{1, 2, 12} {
			p := newPath(t, Config{Budget: bud(1 << 20), PartSize: c.part, Fetchers: fetchers})
			streams := int64(max(fetchers-policy.Early(fetchers), 1))
			if got, want := p.firstPart(c.total), min(c.want(streams), c.part); got != want {
				t.Errorf("%d bytes in parts of %d in %d places: got %d, want %d", c.total, c.part, fetchers, got, want)
			}
		}
	}
}

// TestSource_DueByPolicy checks that chunks that a reader needs soon are due before all others, in
// the order of the plan. Other chunks have a due time only with the plan policy.
func TestSource_DueByPolicy(t *testing.T) {
	d := newDataset(t, 1, same(120, 3000), 10, 16<<10)
	plan := d.plan(t, shuffle.None, 0)
	for _, name := range append(policy.Names(), "") {
		bubble.Test(t, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(200 << 10), NoPrefetch: true, Policy: name})
			s := p.Open(d.index, d.store, "set/")
			defer s.Close()
			for c := range d.index.Chunks() {
				if got := s.due(c, -1); got != chunkcache.Never {
					t.Fatalf("%s: got chunk %d due at %d before there is a reader, want never", name, c, got)
				}
			}
			for n := range uint64(3) {
				at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: n * 5, End: n*5 + 5, BatchSize: 5}
				body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{n * 5}))
				must(t, err)
				body.Close()
				time.Sleep(time.Second)
			}
			soon, later := 0, 0
			for c := range d.index.Chunks() {
				coming := p.readers.NextUse(s, c)
				want := int64(chunkcache.Never)
				switch {
				case coming.Soon:
					want, soon = int64(coming.In), soon+1
				case coming.In != lookahead.Never && name != policy.LRU:
					want, later = chunkcache.Soon+1+int64(coming.In), later+1
				}
				if got := s.due(c, -1); got != want {
					t.Errorf("%s: got chunk %d due at %d, want %d", name, c, got, want)
				}
			}
			if soon == 0 || soon == d.index.Chunks() || (later == 0) != (name == policy.LRU) {
				t.Errorf("%s: got %d chunks due soon and %d later, want some of each", name, soon, later)
			}
		})
	}
}

// TestSource_KeysOnDiskByOrigin checks that all datasets share files if SHA-256 proves the bytes.
// Otherwise only datasets of the same generation and origin share them.
func TestSource_KeysOnDiskByOrigin(t *testing.T) {
	d := newDataset(t, 1, same(4, 900), 4, 8<<10)
	desc := d.index.Chunk(0)
	for _, sha := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			onDisk(t, t.TempDir(), 1<<20, Config{NoPrefetch: true, Budget: bud(1 << 20), CheckSHA: sha}, func(p *Path) {
				for _, origin := range []string{"here", "there"} {
					s := p.Open(d.index, d.store, "set/")
					defer s.Close()
					if s.onDisk || s.isOnDisk(0) {
						t.Error("got a dataset on disk unasked")
					}
					s.KeepOnDisk(origin)
					want := diskcache.Key{Digest: desc.Digest, Length: desc.Length, CRC32C: desc.CRC32C}
					if !sha {
						want.Source = sha256.Sum256([]byte(d.index.Generation() + "\x00" + origin))
					}
					if got := s.diskKey(0); got != want || !s.onDisk {
						t.Errorf("%s, SHA %v: got key %x, want %x", origin, sha, got, want)
					}
					if memory := s.key(0); (memory.source == 0) != sha || memory.digest != desc.Digest || memory.length != uint32(desc.Length) || memory.crc != desc.CRC32C {
						t.Errorf("%s, SHA %v: got %+v in memory, want a number of its own only without SHA", origin, sha, memory)
					}
				}
			})
		})
	}
}

// TestSource_IntactChecksAllClaims checks that a chunk is accepted by its CRC-32C, and also by its
// digest if digests are compared.
func TestSource_IntactChecksAllClaims(t *testing.T) {
	data := []byte("chunks in the index")
	right := chunkindex.Chunk{CRC32C: checksum(data), Digest: sha256.Sum256(data)}
	wrongSum, wrongDigest := right, right
	wrongSum.CRC32C++
	wrongDigest.Digest[31] ^= 1
	for _, sha := range []bool{true, false} {
		s := &Source{path: &Path{cfg: Config{CheckSHA: sha}}}
		for name, c := range map[string]struct {
			desc chunkindex.Chunk
			want bool
		}{"right": {right, true}, "another sum": {wrongSum, false}, "another digest": {wrongDigest, !sha}} {
			if got := s.intact(c.desc, data, checksum(data)); got != c.want {
				t.Errorf("%s, SHA %v: got %v, want %v", name, sha, got, c.want)
			}
		}
	}
}

// TestSource_NewBatchAddsUp checks that newBatch sorts the chunks, leaves its argument unchanged,
// and counts segments and bytes over all chunks.
func TestSource_NewBatchAddsUp(t *testing.T) {
	d := newDataset(t, 1, same(40, 3000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	last := uint32(d.index.Chunk(3).Length)
	asked := []batch.ChunkRanges{
		{Chunk: 3, Ranges: []batch.Range{{Seq: 5, Offset: last - 7, Length: 7}, {Seq: 0, Offset: last}}},
		{Chunk: 0, Ranges: []batch.Range{{Seq: 2, Length: 100}}},
		{Chunk: 2},
	}
	was := slices.Clone(asked)
	b, err := s.newBatch(asked)
	must(t, err)
	var order []int
	for _, c := range b.chunks {
		order = append(order, c.Chunk)
	}
	if !slices.Equal(order, []int{0, 2, 3}) || b.segments != 6 || b.bytes != 107 {
		t.Errorf("got chunks %v, %d segments, %d bytes; want 0, 2, 3, and 6 and 107", order, b.segments, b.bytes)
	}
	for i := range asked {
		if asked[i].Chunk != was[i].Chunk {
			t.Error("got the request's own list sorted")
		}
	}
	half := b.of(b.chunks[2:])
	if half.bytes != 7 || len(half.chunks) != 1 || half.segments != 6 || b.bytes != 107 {
		t.Errorf("got a part of %d bytes and a batch of %d, want 7 and 107", half.bytes, b.bytes)
	}
}

// TestStore_ReadsNothingAfterCancel checks that a load that was canceled while another tier was
// tried makes no store read.
func TestStore_ReadsNothingAfterCancel(t *testing.T) {
	d := newDataset(t, 1, same(40, 3000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	gone := errors.New("the client has gone")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(gone)
	chunks := d.ranges(t, []uint64{12})
	b, err := s.newBatch(chunks)
	must(t, err)
	l := &load{source: s}
	if err := (store{}).Load(ctx, l, fillsOf(b.chunks, nil)); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	if got := d.store.Stats().Total; got != 0 || l.came != (tally{}) {
		t.Errorf("got %d requests to the store and %+v counted, want none", got, l.came)
	}
}

// TestLater_FactorAndBounds checks that a prefetch evicts a chunk only if that chunk is due at
// least four times as late. A chunk needed soon is never evicted for one needed later.
func TestLater_FactorAndBounds(t *testing.T) {
	for due, want := range map[int64]int64{
		0: 0, 1: 4, 1000: 4000, chunkcache.Soon / 4: min(chunkcache.Soon/4*4, chunkcache.Soon-1), chunkcache.Soon - 1: chunkcache.Soon - 1,
		chunkcache.Soon: chunkcache.Soon, chunkcache.Soon + 1: chunkcache.Soon + 1, chunkcache.Never: chunkcache.Never,
	} {
		if got := chunkcache.Later(due); got != want {
			t.Errorf("due at %d: got %d, want %d", due, got, want)
		}
	}
	for places, want := range map[int]int{1: 1, 3: 1, 4: 1, 7: 1, 8: 2, 12: 3, 48: 12} {
		if got := policy.Early(places); got != want {
			t.Errorf("got %d of %d places to work ahead, want %d", got, places, want)
		}
	}
}
