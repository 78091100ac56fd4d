package datapath

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// query returns a query for the ranges of a batch.
func (d *dataset) query(chunks []batch.ChunkRanges) *peer.Query {
	q := &peer.Query{Dataset: "set", Generation: d.index.Generation()}
	for _, c := range chunks {
		q.Chunks = append(q.Chunks, peer.ChunkQuery{Chunk: c.Chunk, Digest: d.index.Chunk(c.Chunk).Digest, Ranges: spans(c.Ranges)})
	}
	return q
}

// whole returns a query for one whole chunk, which is answered only if the chunk is cached.
func (d *dataset) whole(chunk int) (*peer.Query, batch.Range) {
	r := batch.Range{Length: uint32(d.index.Chunk(chunk).Length)}
	q := d.query([]batch.ChunkRanges{{Chunk: chunk, Ranges: []batch.Range{r}}})
	q.Cached = true
	return q, r
}

// Invalid queries are rejected with an error, and nothing is read for them.
func TestQuestionsThatAreRefused(t *testing.T) {
	d := newDataset(t, 90, same(60, 900), 60, 8<<10)
	for what, c := range map[string]struct {
		spoil func(q *peer.Query)
		want  error
	}{
		"another dataset":       {func(q *peer.Query) { q.Dataset = "other" }, peer.ErrNotServed},
		"another generation":    {func(q *peer.Query) { q.Generation = "00" }, peer.ErrNotServed},
		"another digest":        {func(q *peer.Query) { q.Chunks[0].Digest[31] ^= 1 }, peer.ErrMismatch},
		"no such chunk":         {func(q *peer.Query) { q.Chunks[0].Chunk = d.index.Chunks() }, peer.ErrMismatch},
		"a chunk below 0":       {func(q *peer.Query) { q.Chunks[0].Chunk = -1 }, peer.ErrMismatch},
		"beyond the chunk":      {func(q *peer.Query) { q.Chunks[0].Ranges[0].Offset = 1 << 31 }, peer.ErrMismatch},
		"longer than the chunk": {func(q *peer.Query) { q.Chunks[0].Ranges[0].Length = 1<<32 - 1 }, peer.ErrMismatch},
		"a range a thousand times": {func(q *peer.Query) {
			q.Chunks[0].Ranges = slices.Repeat(q.Chunks[0].Ranges[:1], 1000)
		}, peer.ErrMismatch},
		"more than the memory": {func(q *peer.Query) { q.Chunks = append(q.Chunks, many(q.Chunks[0], 1000)...) }, peer.ErrNoRoom},
		"not there": {func(q *peer.Query) {
			q.Cached, q.Chunks = true, q.Chunks[:1]
			q.Chunks[0].Ranges = []peer.Range{{Length: uint32(d.index.Chunk(0).Length)}}
		}, peer.ErrNotHere},
		"a part of a chunk that is there": {func(q *peer.Query) { q.Cached = true }, peer.ErrMismatch},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d.store.Reset()
				f := newFleet(t, d, nil, 2, Config{}, 256<<10)
				q := d.query(d.ranges(t, []uint64{0, 1}))
				c.spoil(q)
				if body, err := f.members[0].path.answer(t.Context(), q); !errors.Is(err, c.want) {
					if err == nil {
						body.Close()
					}
					t.Errorf("got %v, want %v", err, c.want)
				}
				if got := f.stats(); got.StoreReads != 0 || got.PeerServedReads != 0 {
					t.Errorf("got %d store reads and %d answers, want none", got.StoreReads, got.PeerServedReads)
				}
			})
		})
	}
}

func many(w peer.ChunkQuery, n int) []peer.ChunkQuery {
	all := make([]peer.ChunkQuery, n)
	for i := range all {
		all[i] = w
	}
	return all
}

// TestAnswer_RefusesForItsQuota: an answer that a dataset's quota cannot hold says so, since other datasets
// have memory.
func TestAnswer_RefusesForItsQuota(t *testing.T) {
	d := newDataset(t, 91, same(60, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newFleet(t, d, nil, 2, Config{Quota: true}, 256<<10).members[0].path
		r, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
		must(t, err)
		defer r.Release()
		if _, err := p.answer(t.Context(), d.query(d.ranges(t, []uint64{0, 1, 30}))); !errors.Is(err, peer.ErrQuota) || errors.Is(err, peer.ErrNoRoom) {
			t.Errorf("got %v, want %v", err, peer.ErrQuota)
		}
	})
}

// An answer never waits for memory, since the requesting gateway may hold memory while it waits for
// the answer.
func TestAnAnswerWaitsForNoMemory(t *testing.T) {
	d := newDataset(t, 91, same(60, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, nil, 2, Config{}, 256<<10)
		p := f.members[0].path
		r, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
		must(t, err)
		defer r.Release()
		begun := time.Now()
		if body, err := p.answer(t.Context(), d.query(d.ranges(t, []uint64{0, 1, 30}))); !errors.Is(err, peer.ErrNoRoom) {
			if err == nil {
				body.Close()
			}
			t.Errorf("got %v, want %v", err, peer.ErrNoRoom)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("got an answer after %v, want it at once", took)
		}
	})
}

// A gateway has become the owner of a chunk, but its own view is older. Other gateways already send
// it queries for samples of that chunk. It reads the chunk once, as a whole.
func TestAnswer_KeepsSpareChunkOfOther(t *testing.T) {
	d := newDataset(t, 95, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{NoPrefetch: true}, 1<<20)
		m := f.members[0]
		m.lose(0)
		all := make([]uint64, f.plan.Samples())
		for i := range all {
			all[i] = uint64(i)
		}
		for n := range uint64(8) {
			var share []uint64
			for i := n; i < uint64(len(all)); i += 8 {
				share = append(share, all[i])
			}
			chunks := d.ranges(t, share)
			q := d.query(chunks)
			q.Reader = &peer.Reader{Params: f.plan.Params(), Cursor: shuffle.Cursor{End: 48, BatchSize: 48, WorldSize: 1}}
			body, err := m.path.answer(t.Context(), q)
			must(t, err)
			must(t, d.check(chunks, body))
			body.Close()
		}
		if got := m.path.Stats(); got.StoreBytes != d.bytes() || got.RangeReads != 0 || got.PeerReads != 0 {
			t.Errorf("got %d bytes from the store, %d reads of samples, %d questions; want %d: each chunk once, none, none",
				got.StoreBytes, got.RangeReads, got.PeerReads, d.bytes())
		}
	})
}

// A gateway that does not own a chunk in its view and has no spare memory sends only the requested
// samples, each one checked. It queries no other gateway.
func TestAnswer_NotOwnedReadsStore(t *testing.T) {
	d := newDataset(t, 92, same(60, 900), 60, 64<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, nil, 2, Config{}, 256<<10)
		m := f.members[0]
		m.lose(0)
		r, err := m.path.budget.Reserve(t.Context(), m.path.budget.Total()-32<<10)
		must(t, err)
		defer r.Release()
		chunks := d.ranges(t, []uint64{3, 31, 57})
		body, err := m.path.answer(t.Context(), d.query(chunks))
		must(t, err)
		must(t, d.check(chunks, body))
		body.Close()
		if got := m.path.Stats(); got.StoreBytes >= uint64(d.index.Chunk(0).Length) || got.PeerReads != 0 || m.source.chunks.Resident(0) {
			t.Errorf("got %d bytes from the store, %d questions, kept: %v; want less than the chunk, none, no", got.StoreBytes, got.PeerReads, m.source.chunks.Resident(0))
		}
		q := d.query(chunks)
		q.Chunks[0].Ranges[1].Length--
		if body, err := m.path.answer(t.Context(), q); !errors.Is(err, peer.ErrMismatch) {
			if err == nil {
				body.Close()
			}
			t.Errorf("a part of a sample: got %v, want %v", err, peer.ErrMismatch)
		}
	})
}

// With Cached set, a chunk is sent from memory or from disk, and nothing is fetched for it.
func TestAnswer_SendsCachedChunk(t *testing.T) {
	d := newDataset(t, 93, same(60, 900), 60, 8<<10)
	disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 1 << 20, Datasets: []string{"here"}})
	must(t, err)
	defer disk.Close()
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.None, 0), 1, Config{Disk: disk, NoPrefetch: true}, 256<<10)
		m := f.members[0]
		m.source.KeepOnDisk("here")
		ask := func() error {
			q, r := d.whole(2)
			body, err := m.path.answer(t.Context(), q)
			if err != nil {
				return err
			}
			defer body.Close()
			return d.check([]batch.ChunkRanges{{Chunk: 2, Ranges: []batch.Range{r}}}, body)
		}
		if err := ask(); !errors.Is(err, peer.ErrNotHere) {
			t.Errorf("before it is there: got %v, want %v", err, peer.ErrNotHere)
		}
		must(t, f.readRank(t.Context(), t, m, 0, 30, 0, 1))
		synctest.Wait()
		must(t, ask())
		m.path.cache.Drop()
		if m.source.chunks.Resident(2) || !m.source.isOnDisk(2) {
			t.Fatalf("in memory: %v, on disk: %v; want no, yes", m.source.chunks.Resident(2), m.source.isOnDisk(2))
		}
		before := m.path.Stats().StoreReads
		must(t, ask())
		if got := m.path.Stats(); got.StoreReads != before || m.source.chunks.Resident(2) {
			t.Errorf("got %d more reads of the store, and in memory: %v; want 0 and no", got.StoreReads-before, m.source.chunks.Resident(2))
		}
	})
}

// Canceling a query also ends the reads that were started for it.
func TestAnAnswerEndsWithItsContext(t *testing.T) {
	d := newDataset(t, 94, same(60, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		defer d.slowly(time.Hour)()
		f := newFleet(t, d, nil, 1, Config{}, 256<<10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := f.members[0].path.answer(ctx, d.query(d.ranges(t, []uint64{0}))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("got an answer after %v, want it after a second", took)
		}
	})
}
