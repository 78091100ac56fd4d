package shuffle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// stratifiedModel builds the sequence and its windows from lists, like the definition does.
func stratifiedModel(params Params, epoch uint64, counts []uint64) []uint64 {
	first, n, k := prefix(counts...), uint64(len(counts)), params.Strata
	var lines [][]uint32 // remaining chunks of each stratum
	for range min(k, n) {
		lines = append(lines, nil)
	}
	sequence := make([]uint32, n)
	for i := range sequence {
		sequence[i] = uint32(i)
	}
	shuffleAll(newKey("chunks", params.Seed, epoch), sequence)
	home := newPerm(newKey("strata"), n)
	for _, c := range sequence {
		s := home.at(uint64(c)) % k
		lines[s] = append(lines[s], c)
	}
	var rows [][]uint32
	for left := n; left > 0; {
		var row []uint32
		order := newPerm(newKey("strata-row", params.Seed, epoch, uint64(len(rows))), k)
		for i := range k {
			if s := order.at(i); s < uint64(len(lines)) && len(lines[s]) > 0 {
				row = append(row, lines[s][0])
				lines[s] = lines[s][1:]
				left--
			}
		}
		rows = append(rows, row)
	}
	r, g := uint64(len(rows)), params.Window/k
	windows := (r + g - 1) / g
	var all []uint64
	for i := range windows {
		var samples []uint64
		for _, row := range rows[i*r/windows : (i+1)*r/windows] {
			for _, c := range row {
				for x := first[c]; x < first[c+1]; x++ {
					samples = append(samples, x)
				}
			}
		}
		p := newPerm(newKey("window", params.Seed, epoch, i), uint64(len(samples)))
		for t := range samples {
			all = append(all, samples[p.at(uint64(t))])
		}
	}
	return all
}

func drawStrata(t *rapid.T) Params {
	k := rapid.OneOf(rapid.Uint64Range(1, 9), rapid.Uint64Range(100, 300)).Draw(t, "strata")
	return Params{
		Shuffle: Window, Strata: k, Window: k * rapid.Uint64Range(1, 6).Draw(t, "rows"), Seed: rapid.Uint64().Draw(t, "seed"),
	}
}

func TestStrataFollowTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params, first, epoch := drawStrata(t), drawChunks(t), rapid.Uint64().Draw(t, "epoch")
		p, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		e := p.Epoch(epoch)
		if err := checkBijection(e); err != nil {
			t.Fatal(err)
		}
		if err := checkSpans(e); err != nil {
			t.Fatal(err)
		}
		counts := make([]uint64, len(first)-1)
		for i := range counts {
			counts[i] = first[i+1] - first[i]
		}
		if got, want := e.Append(nil, 0, e.plan.samples), stratifiedModel(params, epoch, counts); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestWindowsHoldAllStrataAlike checks the purpose of strata: each window of whole rows has the
// same number of chunks of each stratum, and a stratum has the same chunks in any epoch.
func TestWindowsHoldAllStrataAlike(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Window, Window: 32, Strata: 16, Seed: 7}, equal(500, 3)) // 31 rows and 4 chunks
	for epoch := range uint64(5) {
		w := p.Epoch(epoch).window
		if w.windows != 16 {
			t.Fatalf("got %d windows, want 16", w.windows)
		}
		for i := range w.windows - 1 {
			count := map[uint32]int{}
			lo, hi := w.bound(i), w.bound(i+1)
			if (hi-lo)%16 != 0 || hi-lo > 32 {
				t.Errorf("epoch %d, window %d: got %d chunks, want one or two rows of 16", epoch, i, hi-lo)
			}
			for _, c := range w.order[lo:hi] {
				count[p.strata[c]]++
			}
			for s := range uint32(16) {
				if count[s] != (hi-lo)/16 {
					t.Errorf("epoch %d, window %d: got %d chunks of stratum %d, want %d", epoch, i, count[s], s, (hi-lo)/16)
				}
			}
		}
	}
}

func TestStrataMixEpochsAndRows(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Window, Window: 48, Strata: 16, Seed: 7}, equal(480, 2))
	seen := map[string]string{}
	for epoch := range uint64(4) {
		w := p.Epoch(epoch).window
		for row := range 30 {
			var strata []uint32
			for _, c := range w.order[row*16 : row*16+16] {
				strata = append(strata, p.strata[c])
			}
			what := fmt.Sprintf("epoch %d, row %d", epoch, row)
			if before, ok := seen[fmt.Sprint(strata)]; ok {
				t.Errorf("%s has its strata in the order of %s", what, before)
			}
			seen[fmt.Sprint(strata)] = what
		}
	}
	other := mustPlan(t, Params{Shuffle: Window, Window: 48, Strata: 16, Seed: 8}, equal(480, 2))
	if !slices.Equal(p.strata, other.strata) {
		t.Error("another seed has other strata, want the same: homes belong to the dataset")
	}
	if slices.Equal(p.Epoch(0).window.order, other.Epoch(0).window.order) {
		t.Error("another seed has the same sequence of chunks")
	}
}

func TestBadStrataAreRefused(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   string
	}{
		{Params{Shuffle: Slot, Window: 8, Strata: 4}, "shuffle slot: strata is 4: must be 0, since only window has strata"},
		{Params{Shuffle: Full, Strata: 4}, "shuffle full: strata is 4: must be 0"},
		{Params{Shuffle: None, Strata: 1}, "shuffle none: strata is 1: must be 0"},
		{Params{Shuffle: Window, Window: 8, Strata: 16}, "strata is 16: must divide the window, 8"},
		{Params{Shuffle: Window, Window: 8, Strata: 3}, "strata is 3: must divide the window, 8"},
		{Params{Shuffle: Window, Window: 1 << 20, Strata: 1 << 17}, "strata is 131072: must be at most 65536"},
		{Params{Shuffle: Window, Window: 0, Strata: 3}, "window is 0: must be at least 1"},
	} {
		if _, err := NewPlan(c.params, equal(4, 2)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewPlan(%+v): got %v, want an error with %q", c.params, err, c.want)
		}
	}
	huge := mustPlan(t, Params{Shuffle: Window, Window: 3 * MaxStrata, Strata: MaxStrata, Seed: 1}, equal(40, 2))
	if err := checkBijection(huge.Epoch(0)); err != nil {
		t.Errorf("as many strata as can be: %v", err)
	}
}

func TestWeightedStrata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWeighing(t, drawChunks(t))
		if w == nil {
			return
		}
		params := drawStrata(t)
		params.Importance = snapshot
		p, err := NewWeightedPlan(params, w.first, w.totals())
		if err != nil {
			t.Fatal(err)
		}
		e := p.Epoch(rapid.Uint64().Draw(t, "epoch"))
		if err := checkBijection(e); err != nil {
			t.Fatal(err)
		}
		counts := make([]uint64, len(w.first)-1)
		for i := range counts {
			counts[i] = e.draws.first.size(uint32(i))
		}
		if got, want := e.Append(nil, 0, e.plan.samples), stratifiedModel(p.params, e.number, counts); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
