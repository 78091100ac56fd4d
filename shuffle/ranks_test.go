package shuffle

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRanksAreThoseOfTheShares compares the rank of each position with the shares of all ranks.
func TestRanksAreThoseOfTheShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Batching{
			Samples: rapid.Uint64Range(1, 300).Draw(t, "samples"), BatchSize: rapid.Uint64Range(1, 90).Draw(t, "batch size"),
			Tail: rapid.SampledFrom([]Tail{Short, Drop, Pad}).Draw(t, "tail"),
		}
		world := rapid.Uint64Range(1, 40).Draw(t, "world size")
		for m := range b.Batches() {
			for rank := range world {
				s := b.Share(m, rank, world)
				for position := s.First; position < s.First+s.Count; position++ {
					if got := b.RankOf(position, world); got != rank {
						t.Fatalf("position %d of batch %d: got rank %d, want %d", position, m, got, rank)
					}
				}
			}
		}
	})
}

func TestRanksAreThoseOfTheHomes(t *testing.T) {
	first := []uint64{0}
	for i := range uint64(40) {
		first = append(first, first[i]+5+i%7)
	}
	for _, params := range []Params{{Shuffle: Slot, Window: 8, Seed: 1}, {Shuffle: Window, Window: 16, Strata: 8, Seed: 2}, {Shuffle: Full, Seed: 3}} {
		plan, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		e, b := plan.Epoch(3), Batching{Samples: plan.Samples(), BatchSize: 50, Tail: Pad}
		for _, homes := range []uint64{1, 3, 6} {
			for m := range b.Batches() {
				batch := b.Share(m, 0, 1)
				var all []int
				for rank := range uint64(6) {
					share := e.DealHomes(batch, rank, 6, homes)
					for _, place := range share {
						if got := e.HomeRank(batch, place, 6, homes); got != rank {
							t.Fatalf("%+v, %d homes, batch %d, place %d: got rank %d, want %d", params, homes, m, place, got, rank)
						}
					}
					all = append(all, share...)
				}
				if slices.Sort(all); len(all) != 50 {
					t.Fatalf("got %d places, want all 50", len(all))
				}
			}
		}
	}
}
