//go:build !race

package shuffle

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestEveryEpochIsABijectionBeyondTheExactSizes(t *testing.T) {
	unequal := make([]uint64, 300)
	for i := range unequal {
		unequal[i] = uint64(i*i) % 401
	}
	for _, first := range [][]uint64{equal(1, 40_000), equal(3, 9_999), equal(500, 70), equal(16, 1000), prefix(unequal...)} {
		for _, name := range []string{None, Window, Slot, Full} {
			for _, window := range []uint64{1, 7, 150, 1000} {
				p := mustPlan(t, Params{Shuffle: name, Window: window, Seed: 5}, first)
				if err := checkBijection(p.Epoch(1 << 40)); err != nil {
					t.Errorf("%s, window %d, %d chunks: %v", name, window, len(first)-1, err)
				}
			}
		}
	}
}

// TestEverySmallOrder covers all shapes of up to 5 chunks of up to 3 samples.
func TestEverySmallOrder(t *testing.T) {
	var counts []uint64
	var visit func()
	visit = func() {
		first := prefix(counts...)
		for _, name := range []string{None, Window, Slot, Full} {
			for window := uint64(1); window <= 6; window++ {
				p := mustPlan(t, Params{Shuffle: name, Window: window, Seed: window}, first)
				e := p.Epoch(3)
				if err := checkBijection(e); err != nil {
					t.Fatalf("%s, window %d, chunks %v: %v", name, window, counts, err)
				}
				if err := checkSpans(e); err != nil {
					t.Fatalf("%s, window %d, chunks %v: %v", name, window, counts, err)
				}
			}
		}
		if len(counts) == 5 {
			return
		}
		for c := range uint64(4) {
			counts = append(counts, c)
			visit()
			counts = counts[:len(counts)-1]
		}
	}
	visit()
}

// TestEverySmallStratifiedOrder covers all shapes of up to 5 chunks of up to 2 samples: empty
// chunks, one chunk, strata without chunks, and strata that do not divide the chunks.
func TestEverySmallStratifiedOrder(t *testing.T) {
	for n := range 6 {
		counts := make([]uint64, n)
		for shape := 0; shape < int(math.Pow(3, float64(n))); shape++ {
			for i, left := 0, shape; i < n; i, left = i+1, left/3 {
				counts[i] = uint64(left % 3)
			}
			for k := uint64(1); k <= 7; k++ {
				for g := uint64(1); g <= 3; g++ {
					params := Params{Shuffle: Window, Window: g * k, Strata: k, Seed: k}
					e := mustPlan(t, params, prefix(counts...)).Epoch(g)
					what := fmt.Sprintf("%d strata, window %d, chunks %v", k, params.Window, counts)
					if err := checkBijection(e); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if err := checkSpans(e); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if got, want := e.Append(nil, 0, e.plan.samples), stratifiedModel(params, g, counts); !slices.Equal(got, want) {
						t.Fatalf("%s: got %v, want %v", what, got, want)
					}
				}
			}
		}
	}
}

// TestMovedShares checks the figures in docs/spec/order.md: 512 chunks of 128 samples, batches of
// 2048.
func TestMovedShares(t *testing.T) {
	first := equal(512, 128)
	slot := mustPlan(t, Params{Shuffle: Slot, Window: 128, Seed: 1}, first)
	e := slot.Epoch(0)
	for _, c := range []struct {
		batchSize, worldSize, homes uint64
		least, most                 float64
	}{
		{2048, 2, 2, 0, 0},
		{2048, 16, 16, 0, 0},
		{2048, 128, 128, 0, 0},
		{2048, 512, 64, 0, 0},
		{2048, 96, 32, 0, 0},
		{2048, 3, 3, .005, .009},
		{2048, 6, 6, .009, .015},
		{2048, 24, 24, .035, .053},
		{2048, 96, 96, .15, .19},
		{2048, 96, 12, .015, .029},
		{2048, 127, 127, .006, .014},
	} {
		moved := movedOver(e, c.batchSize, c.worldSize, c.homes)
		t.Logf("figure: moved share, slot of 128 lanes, %d ranks, %d homes: %.2f %%", c.worldSize, c.homes, 100*moved)
		if moved < c.least || moved > c.most {
			t.Errorf("slot, %d ranks, %d homes: got %.4f of the samples moved, want %v to %v", c.worldSize, c.homes, moved, c.least, c.most)
		}
	}
	for _, w := range []uint64{3, 4, 8, 16, 32, 64} {
		moved, hashed := 0., 0.
		const seeds = 4
		for seed := range uint64(seeds) {
			e := mustPlan(t, Params{Shuffle: Window, Window: 64, Strata: 64, Seed: seed}, first).Epoch(0)
			moved += movedOver(e, 2048, w, w) / seeds
			hashed += hashedMoved(e, 2048, w) / seeds
		}
		t.Logf("figure: moved share, window of 64 in 64 strata, %d ranks: %.1f %% (chunks owned by hash: %.0f %%)", w, 100*moved, 100*hashed)
		if moved < .012 || moved > .062 {
			t.Errorf("window, %d ranks: got %.4f of the samples moved, want .012 to .062", w, moved)
		}
		if hashed < .05 || hashed > .41 {
			t.Errorf("by hash, %d ranks: got %.3f of the samples moved, want .05 to .41", w, hashed)
		}
		said := mustPlan(t, Params{Shuffle: Window, Window: 64, Strata: 64}, first).Moved(Batching{Samples: 512 * 128, BatchSize: 2048}, w, w)
		if said < .8*moved || said > 1.2*moved {
			t.Errorf("Moved, %d ranks: got %.4f, want %.4f within a fifth", w, said, moved)
		}
	}
}
