package datapath

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// pair is a mixture of two datasets, a and b, in one path or in two.
type pair struct {
	a, b    *dataset
	paths   []*Path
	sources []*Source
	mixture *Mixture
	at      shuffle.Cursor      // zero: no position
	chunks  []batch.ChunkRanges // one batch: samples of a, followed by as many samples of b
}

func newPair(t *testing.T, a, b *dataset, totals ...int64) *pair {
	t.Helper()
	m := &pair{a: a, b: b}
	for _, total := range totals {
		m.paths = append(m.paths, newPath(t, Config{Budget: bud(total), NoPrefetch: true}))
	}
	m.sources = []*Source{m.paths[0].Open(a.index, a.store, "set/"), m.paths[len(totals)-1].Open(b.index, b.store, "set/")}
	m.mixture = Mix(m.paths, []Part{{"a", m.sources[0]}, {"b", m.sources[1]}})
	samples := []uint64{1, 22, 33}
	m.chunks = a.ranges(t, samples)
	for _, c := range shifted(b.ranges(t, samples), a.index.Chunks()) {
		c.Ranges = slices.Clone(c.Ranges)
		for i := range c.Ranges {
			c.Ranges[i].Seq += len(samples)
		}
		m.chunks = append(m.chunks, c)
	}
	return m
}

// right compares the segments of a body that are not nil with the stored bytes.
func (m *pair) right(t *testing.T, body *batch.Body) {
	t.Helper()
	for _, c := range m.chunks {
		d, chunk := m.a, c.Chunk
		if chunk >= m.a.index.Chunks() {
			d, chunk = m.b, chunk-m.a.index.Chunks()
		}
		for _, r := range c.Ranges {
			if got := body.Segments[r.Seq]; got != nil && string(got) != string(d.stored(chunk, r)) {
				t.Errorf("segment %d: got other bytes than stored", r.Seq)
			}
		}
	}
}

// planned gives the reader a plan, so that whole chunks are worth their memory.
func (m *pair) planned(t *testing.T) *pair {
	t.Helper()
	for _, d := range []*dataset{m.a, m.b} {
		m.at.Parts = append(m.at.Parts, first(d.plan(t, shuffle.None, 0), 0, 20))
	}
	return m
}

func (m *pair) idle(t *testing.T, when string) {
	t.Helper()
	synctest.Wait() // wait until abandoned loads have ended
	for _, p := range m.paths {
		p.idle(t, when)
		if got := p.budget.Pinned(); got != 0 {
			t.Errorf("%s: got %d bytes pinned, want none", when, got)
		}
	}
}

// The first part of a batch that fails cancels the other parts and frees their memory. The error
// names the source of the failed part, and the shard by its number in the mixture.
func TestMixture_FailedPartCancelsOthers(t *testing.T) {
	a, b := newDataset(t, 320, same(40, 3000), 10, 16<<10), newDataset(t, 321, same(40, 3000), 10, 16<<10)
	trial := func(t *testing.T, fails int, total int64, other memstore.Fault) {
		m := newPair(t, a, b, total).planned(t)
		sets := []*dataset{a, b}
		sets[fails].store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: time.Second, Err: objstore.ErrDenied} })
		sets[1-fails].store.SetFault(func(memstore.Call) memstore.Fault { return other })
		_, err := m.mixture.Read(t.Context(), m.at, m.chunks)
		var at *chunkindex.RangeError
		name := []string{"a", "b"}[fails]
		if !errors.Is(err, objstore.ErrDenied) || !errors.As(err, &at) || !strings.HasPrefix(err.Error(), "source "+name+": ") {
			t.Fatalf("got %v, want %v of source %s", err, objstore.ErrDenied, name)
		}
		if !strings.HasPrefix(at.Key, name+"/") || (at.Shard >= a.index.Shards()) != (fails == 1) {
			t.Errorf("got shard %d, %s, want one of source %s", at.Shard, at.Key, name)
		}
		m.idle(t, "failed")
		a.store.SetFault(nil)
		b.store.SetFault(nil)
		body, err := m.mixture.Read(t.Context(), m.at, m.chunks)
		must(t, err)
		m.right(t, body)
		body.Close()
		m.idle(t, "read")
	}
	for _, fails := range []int{0, 1} {
		for _, total := range []int64{8 << 20, tight} {
			for _, other := range []memstore.Fault{{}, {Stall: true}} {
				bubble.Test(t, func(t *testing.T) { trial(t, fails, total, other) })
			}
		}
	}
}

// tight is a budget with room for the bytes of a pair's batch. It is too small if one part also
// gets memory for gaps.
const tight = 24 << 10

// If there is no room for whole chunks, the samples of all parts are copied into memory that is
// reserved in one step. A body reports each tier once.
func TestMixture_TakesMemoryInOneStep(t *testing.T) {
	a, b := newDataset(t, 320, same(40, 3000), 10, 16<<10), newDataset(t, 321, same(40, 3000), 10, 16<<10)
	const bytes = 6 * 3584
	for name, totals := range map[string][]int64{"plenty": {8 << 20}, "little": {tight}, "little of two": {tight / 2, tight / 2}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				m := newPair(t, a, b, totals...)
				if name == "plenty" {
					m.planned(t)
				}
				for range 3 {
					body, err := m.mixture.Read(t.Context(), m.at, m.chunks)
					must(t, err)
					m.right(t, body)
					tiers, seen := int64(0), map[string]bool{}
					for _, tier := range body.Tiers {
						if seen[tier.Tier] {
							t.Errorf("got tier %s twice", tier.Tier)
						}
						tiers, seen[tier.Tier] = tiers+tier.Bytes, true
					}
					if tiers != bytes || len(body.Segments) != 6 {
						t.Errorf("got %d segments, %d bytes by tier; want 6 and %d", len(body.Segments), tiers, bytes)
					}
					for seq := range 6 { // sent segments are no longer needed
						body.Segments[seq] = nil
						body.Settle()
						m.right(t, body)
						for later := seq + 1; later < 6; later++ {
							if body.Segments[later] == nil {
								t.Fatalf("segment %d is gone though only %d are sent", later, seq+1)
							}
						}
					}
					body.Close()
					m.idle(t, "read")
				}
			})
		})
	}
}

// If one path has no memory, the memory reserved in the other paths is freed.
func TestMixture_RefusedByOnePathHoldsNothing(t *testing.T) {
	a, b := newDataset(t, 320, same(40, 3000), 10, 16<<10), newDataset(t, 321, same(40, 3000), 10, 16<<10)
	for _, full := range []int{0, 1} {
		bubble.Test(t, func(t *testing.T) {
			m := newPair(t, a, b, 1<<20, 1<<20)
			p := m.paths[full]
			all, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
			must(t, err)
			if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, m.chunks); !errors.Is(err, budget.ErrOverloaded) {
				t.Errorf("got %v, want %v", err, budget.ErrOverloaded)
			}
			all.Release()
			m.idle(t, "refused")
		})
	}
}

// Requests that a mixture can never serve are rejected before memory is reserved.
func TestMixture_RefusesAtOnce(t *testing.T) {
	a, b := newDataset(t, 320, same(40, 3000), 10, 16<<10), newDataset(t, 321, same(40, 3000), 10, 16<<10)
	bubble.Test(t, func(t *testing.T) {
		m := newPair(t, a, b, 16<<10)
		gone := errors.New("the client has gone")
		ended, leave := context.WithCancelCause(t.Context())
		leave(gone)
		if _, err := m.mixture.Read(ended, shuffle.Cursor{}, m.chunks); !errors.Is(err, gone) {
			t.Errorf("ended: got %v, want %v", err, gone)
		}
		if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, m.chunks); !errors.Is(err, budget.ErrTooLarge) {
			t.Errorf("more than the budget together: got %v, want %v", err, budget.ErrTooLarge)
		}
		for _, chunk := range []int{-1, a.index.Chunks() + b.index.Chunks()} {
			if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, []batch.ChunkRanges{{Chunk: chunk}}); err == nil || !strings.Contains(err.Error(), "no such chunk") {
				t.Errorf("chunk %d: got %v, want no such chunk", chunk, err)
			}
		}
		beyond := []batch.ChunkRanges{{Chunk: a.index.Chunks(), Ranges: []batch.Range{{Offset: 1 << 20, Length: 1}}}}
		if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, beyond); !errors.Is(err, chunkindex.ErrCorrupt) || !strings.HasPrefix(err.Error(), "source b: ") {
			t.Errorf("beyond a chunk of b: got %v, want %v of source b", err, chunkindex.ErrCorrupt)
		}
		if _, err := m.mixture.Warm(t.Context(), shuffle.Cursor{}); err == nil {
			t.Error("got a mixture warmed, want its sources named")
		}
		m.sources[1].Close()
		if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, m.chunks); !errors.Is(err, ErrClosed) {
			t.Errorf("one is closed: got %v, want %v", err, ErrClosed)
		}
		m.idle(t, "refused")
		if a.store.Stats().Total+b.store.Stats().Total != 0 {
			t.Error("the store was read for a refused request")
		}
	})
}
