package datapath

import (
	"testing"

	"github.com/millrace-data/millrace/datapath/chunkcache"
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
