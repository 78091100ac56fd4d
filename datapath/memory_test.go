package datapath

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// TestPath_TryReserveEvictsOnlyWhatSuffices checks that a reservation that fails evicts nothing,
// and that one that succeeds evicts no more chunks than needed for the missing bytes.
func TestPath_TryReserveEvictsOnlyWhatSuffices(t *testing.T) {
	d := newDataset(t, 1, same(64, 100<<10), 16, 1<<20) // 8 chunks
	p := newPath(t, Config{NoPrefetch: true, Budget: bud(12 << 20)})
	s := p.Open(d.index, d.store, "set/")
	defer s.Close()
	d.readEpoch(t, s, d.plan(t, shuffle.None, 0), 0, 8)
	pinned, ok := p.cache.TryBuffer(3 << 20)
	if !ok {
		t.Fatal("got no memory to pin, want 3 MiB")
	}
	defer pinned.Close()
	before := p.Stats()
	if _, ok := p.TryReserve(11 << 20); ok {
		t.Fatal("got 11 MiB while 3 of 12 MiB are pinned, want none")
	}
	if got := p.Stats().Evictions - before.Evictions; got != 0 {
		t.Errorf("got %d of %d chunks evicted for a reservation that was refused, want none", got, before.CachedChunks)
	}
	free := before.BudgetTotal - before.BudgetInUse
	release, ok := p.TryReserve(free + chunkcache.Cost(d.index.Chunk(1).Length)) // the length of a short chunk: evicting any chunk is enough
	if !ok {
		t.Fatal("got no memory for the bytes of one chunk more than are free, want some")
	}
	defer release()
	if got := p.Stats().Evictions - before.Evictions; got != 1 {
		t.Errorf("got %d chunks evicted for the bytes of one, want 1", got)
	}
}

// TestPath_SmallBodiesPassWaiter: a body too large for the free memory waits. Small bodies get
// memory meanwhile, whether they wait or not, from chunks that fill the budget. Prefetching gets
// none.
func TestPath_SmallBodiesPassWaiter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const chunk, small = 100 << 10, 1 << 20
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(100 << 20)})
		fillMemory(t, p, chunk)
		pinned, err := p.room(t.Context(), 40<<20, true)
		must(t, err)
		large := make(chan error)
		go func() {
			_, err := p.room(t.Context(), 70<<20, true)
			large <- err
		}()
		synctest.Wait()
		before := p.Stats().Evictions
		for _, waits := range []bool{false, true} {
			body, err := p.room(t.Context(), small, waits)
			if err != nil {
				t.Errorf("got %v for 1 of 60 free MiB, want memory", err)
				continue
			}
			body.close()
			if !waits {
				time.Sleep(budget.DefaultWait / 4 * 3) // from now on the large body has priority
			}
		}
		release, ok := p.TryReserve(small)
		if !ok {
			t.Error("got no memory for a question of 1 MiB, of 60 free MiB")
		} else {
			release()
		}
		if p.cache.Populate(chunk) {
			t.Error("memory was populated for chunks to come while a body waits, want none")
		}
		if p.budget.Waiting() != 1 {
			t.Fatal("the large body does not wait any more")
		}
		if got := p.Stats().Evictions - before; got == 0 || got > small/chunk+1 {
			t.Errorf("got %d chunks evicted for three pieces of 1 MiB, one after the other; want those of one piece", got)
		}
		if err := <-large; !errors.Is(err, budget.ErrOverloaded) {
			t.Errorf("got %v for 70 MiB of 60, want %v", err, budget.ErrOverloaded)
		}
		pinned.close()
	})
}

// TestPart_SharesItsMemory checks that each part of a batch gets its bytes, and an eighth more
// while memory lasts. No two parts share bytes.
func TestPart_SharesItsMemory(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []uint32
		total int64
		want  []int64 // -1: not enough memory
	}{
		"exactly": {[]uint32{80, 40}, 120, []int64{80, 40}},
		"plenty":  {[]uint32{80, 40}, 135, []int64{90, 45}},
		"some":    {[]uint32{80, 40, 160}, 292, []int64{90, 42, 160}},
		"none":    {[]uint32{0, 8}, 8, []int64{0, 8}},
		"less":    {[]uint32{80, 40}, 119, []int64{80, -1}},
	} {
		p, gaps := newPath(t, Config{Budget: bud(1 << 20)}), c.total
		for _, n := range c.sizes {
			gaps = max(gaps-int64(n), 0)
		}
		memory, at := room{bytes: make([]byte, c.total), own: new(chunkcache.Buffer[key]), holders: new(atomic.Int32)}, int64(0)
		all := memory.bytes
		for i, n := range c.sizes {
			s := &Source{path: p}
			near := request{bytes: int64(n), chunks: []batch.ChunkRanges{{Ranges: []batch.Range{{Length: n}}}}}
			x := &part{source: s, near: &near, need: &demand{near: near, joins: true}}
			if enough := x.pin(t.Context(), &memory, &gaps); enough != (c.want[i] >= 0) {
				t.Errorf("%s: part %d: got enough: %v", name, i, enough)
			}
			if c.want[i] < 0 {
				continue
			}
			got := x.own.room
			defer x.giveBack()
			if int64(len(got.bytes)) != c.want[i] || cap(got.bytes) != len(got.bytes) || got.own != memory.own || int(got.holders.Load()) != i+1 {
				t.Errorf("%s: got %d bytes for part %d of %d holders, want %d", name, len(got.bytes), i, got.holders.Load(), c.want[i])
				continue
			}
			if len(got.bytes) > 0 && unsafe.SliceData(got.bytes) != &all[at] {
				t.Errorf("%s: got part %d at another place than byte %d", name, i, at)
			}
			at += c.want[i]
		}
	}
}

// TestPath_ReclaimAsksInOrder checks that each holder is asked for the bytes that the earlier
// holders did not free. Once enough bytes are free, no further holder is asked.
func TestPath_ReclaimAsksInOrder(t *testing.T) {
	var asked []string
	gives := func(name string, most int64) yielder {
		return yielder{func(n int64) int64 {
			asked = append(asked, fmt.Sprintf("%s %d", name, n))
			return most
		}, func() int64 { return most }}
	}
	p := &Path{yield: []yielder{gives("a", 3), gives("b", 0), gives("c", 10), gives("d", 100)}}
	for n, want := range map[int64]struct {
		back  int64
		asked []string
	}{
		3:  {3, []string{"a 3"}},
		8:  {13, []string{"a 8", "b 5", "c 5"}},
		14: {113, []string{"a 14", "b 11", "c 11", "d 1"}},
	} {
		asked = nil
		if got := p.reclaim(n); got != want.back || !slices.Equal(asked, want.asked) {
			t.Errorf("%d bytes: got %d of %q, want %d of %q", n, got, asked, want.back, want.asked)
		}
	}
	if got := p.reclaimable(); got != 113 {
		t.Errorf("got %d bytes that could be given back, want 113", got)
	}
}
