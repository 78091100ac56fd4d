package datapath

import (
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// Owners are remembered for as many plans as a sixty-fourth of the budget holds, beside it, and however many plans are read, the
// owners are right.
func TestTablesOfOwnersAreBounded(t *testing.T) {
	d := newDataset(t, 96, same(480, 900), 60, 8<<10)
	one := ownerBytes * int64(d.index.Chunks())
	for _, c := range []struct {
		total int64
		want  int
	}{
		{2 << 20, keptOwners},
		{3 * ownersShare * one, 3},
		{24 << 10, 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := newFleet(t, d, nil, 2, Config{NoPrefetch: true}, c.total)
			m := f.members[0]
			if got, used := m.source.tables, m.path.Stats().BudgetInUse; got != c.want || used != 0 {
				t.Errorf("budget %d: got %d tables and %d bytes in use, want %d and none", c.total, got, used, c.want)
			}
			for seed := range uint64(2 * keptOwners) {
				plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: seed}, d.index.First())
				must(t, err)
				for chunk := range d.index.Chunks() {
					if got, want := m.source.owner(plan, chunk), m.Owner(m.source.peerChunk(plan, chunk)); got != want {
						t.Fatalf("seed %d, chunk %d: got owner %q, want %q", seed, chunk, got, want)
					}
				}
				if got := len(*m.source.owners.Load()); got > c.want {
					t.Fatalf("got %d tables, want at most %d", got, c.want)
				}
			}
		})
	}
}

// What a run brings is dealt to its rank once, and remembered until the rank has read it.
func TestARunIsRememberedAsDealt(t *testing.T) {
	if lookahead.RunBatches+1 > shuffle.KeptDeals {
		t.Errorf("got runs of %d batches beside the one that is read, want no more than the %d that an epoch remembers", lookahead.RunBatches, shuffle.KeptDeals)
	}
}

// BenchmarkView has a view change, with so many chunks of which a part is in memory, and a reader among them.
func BenchmarkView(b *testing.B) {
	for _, c := range []struct {
		samples int
		total   int64
	}{{8 << 10, 16 << 20}, {64 << 10, 16 << 20}, {64 << 10, 1 << 30}} {
		b.Run(fmt.Sprintf("%d in %d MiB", c.samples, c.total>>20), func(b *testing.B) {
			d := newDataset(b, 97, same(c.samples, 900), c.samples, 1<<10)
			f := newFleet(b, d, d.plan(b, shuffle.Window, 64), 4, Config{NoPrefetch: true}, c.total)
			m := f.members[0]
			must(b, f.readRank(b.Context(), b, m, 0, uint64(c.samples/64), 0, 1))
			b.ReportAllocs()
			for b.Loop() {
				m.view.Add(1)
				m.path.reown()
			}
			b.ReportMetric(float64(m.path.Stats().CachedChunks), "chunks")
		})
	}
}
