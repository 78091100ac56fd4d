package datapath

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// TestPath_TryReserveEvictsOnlyWhatSuffices: a reservation that cannot be met evicts nothing, and one that can evicts no
// more chunks than it lacks bytes for.
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
	release, ok := p.TryReserve(free + chunkcache.Cost(d.index.Chunk(0).Length))
	if !ok {
		t.Fatal("got no memory for the bytes of one chunk more than are free, want some")
	}
	defer release()
	if got := p.Stats().Evictions - before.Evictions; got != 1 {
		t.Errorf("got %d chunks evicted for the bytes of one, want 1", got)
	}
}

// TestPath_SmallBodiesPassOneThatWaits: a body too large for what others hold waits for memory. Small ones get theirs meanwhile,
// whether they wait for memory or not, of chunks that fill the budget. What looks ahead takes none.
func TestPath_SmallBodiesPassOneThatWaits(t *testing.T) {
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
				t.Errorf("got %v for 1 of 60 MiB that nobody holds, want memory", err)
				continue
			}
			body.close()
			if !waits {
				time.Sleep(budget.DefaultWait / 4 * 3) // from now on the large one goes first
			}
		}
		release, ok := p.TryReserve(small)
		if !ok {
			t.Error("got no memory for a question of 1 MiB, of 60 that nobody holds")
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
