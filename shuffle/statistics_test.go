//go:build !race

package shuffle

import (
	"fmt"
	"math"
	"os"
	"testing"
)

// trials scales the number of draws: ten times as many in the long run.
func trials(n uint64) uint64 {
	if os.Getenv("MILLRACE_LONG") != "" {
		return 10 * n
	}
	return n
}

// checkUniform compares counts with their expectation by chi-square. Seeds are fixed, so the result
// is always the same. The tolerance is five standard deviations, so no test depends on luck.
func checkUniform(t *testing.T, what string, got []uint64, share []float64) {
	t.Helper()
	var n, chi float64
	for _, g := range got {
		n += float64(g)
	}
	free := -1.0
	for i, g := range got {
		if share[i] == 0 {
			if g > 0 {
				t.Errorf("%s: cell %d holds %d, want none", what, i, g)
			}
			continue
		}
		free++
		want := n * share[i]
		if want < 5 {
			t.Fatalf("%s: cell %d expects %v, too few to judge by", what, i, want)
		}
		chi += (float64(g) - want) * (float64(g) - want) / want
	}
	if z := (chi - free) / math.Sqrt(2*free); math.Abs(z) > 5 {
		t.Errorf("%s: got chi-square %.1f over %.0f degrees of freedom, %.1f standard deviations away", what, chi, free, z)
	}
}

func even(n uint64) []float64 {
	share := make([]float64, n)
	for i := range share {
		share[i] = 1 / float64(n)
	}
	return share
}

// family is a set of permutations of n elements, one for each epoch.
type family struct {
	name string
	n    uint64
	at   func(epoch uint64) func(i uint64) uint64
}

func families(t *testing.T) []family {
	perms := func(purpose string, n uint64) family {
		return family{fmt.Sprintf("%s of %d", purpose, n), n, func(epoch uint64) func(uint64) uint64 {
			p := newPerm(newKey(purpose, 7, epoch), n)
			return p.at
		}}
	}
	// The positions of a window, as indices into its own samples. One window has all samples.
	plan := func(name string, chunks, c uint64) family {
		p := mustPlan(t, Params{Shuffle: name, Window: chunks, Seed: 11}, equal(chunks, c))
		return family{fmt.Sprintf("%s of %d chunks of %d", name, chunks, c), chunks * c, func(epoch uint64) func(uint64) uint64 {
			return p.Epoch(epoch).At
		}}
	}
	return []family{
		perms("row", 2), perms("row", 5), perms("piece", 16), perms("lane", 100), perms("row", exact),
		perms("piece", exact+1), perms("piece", 131), perms("piece", 256), perms("full", 1000), perms("full", 4097), perms("full", 1e9),
		plan(Full, 1, 720), plan(Window, 8, 9), plan(Window, 8, 90),
	}
}

// bin assigns a value below n to one of the bins, whose shares of n may differ.
func bin(v, n, bins uint64) uint64 { return mulDiv(v, bins, n) }

func binSizes(n, bins uint64) []float64 {
	size := make([]float64, bins)
	if n > 1e6 {
		return even(bins)
	}
	for v := range n {
		size[bin(v, n, bins)]++
	}
	for i := range size {
		size[i] /= float64(n)
	}
	return size
}

func TestEveryPlaceIsUniform(t *testing.T) {
	for _, f := range families(t) {
		bins := min(f.n, 200)
		for _, place := range []uint64{0, 1, f.n / 2, f.n - 1} {
			got := make([]uint64, bins)
			for epoch := range trials(20_000) {
				got[bin(f.at(epoch)(place), f.n, bins)]++
			}
			checkUniform(t, fmt.Sprintf("%s, place %d", f.name, place), got, binSizes(f.n, bins))
		}
	}
}

func TestPairsAreUniform(t *testing.T) {
	for _, f := range families(t) {
		bins := min(f.n, 16)
		size := binSizes(f.n, bins)
		share := make([]float64, bins*bins)
		n := float64(f.n)
		for a := range bins {
			for b := range bins {
				share[a*bins+b] = size[a] * size[b] * n / (n - 1)
				if a == b {
					share[a*bins+b] = size[a] * (size[a]*n - 1) / (n - 1)
				}
				if math.Abs(share[a*bins+b]) < 1e-12 {
					share[a*bins+b] = 0
				}
			}
		}
		for _, places := range [][2]uint64{{0, 1}, {0, f.n - 1}, {f.n / 3, f.n/3 + 1}, {f.n / 2, 0}} {
			if places[0] == places[1] {
				continue
			}
			got := make([]uint64, bins*bins)
			for epoch := range trials(20_000) {
				at := f.at(epoch)
				got[bin(at(places[0]), f.n, bins)*bins+bin(at(places[1]), f.n, bins)]++
			}
			checkUniform(t, fmt.Sprintf("%s, places %v", f.name, places), got, share)
		}
	}
}

func TestDisplacementsAreUniform(t *testing.T) {
	for _, f := range families(t) {
		bins := min(f.n, 100)
		got := make([]uint64, bins)
		pick := newKey("pick", f.n)
		for epoch := range trials(20_000) {
			at := f.at(epoch)
			i := pick.draw(epoch, f.n)
			got[bin((at(i)+f.n-i)%f.n, f.n, bins)]++
		}
		checkUniform(t, f.name, got, binSizes(f.n, bins))
	}
}

// TestOneLargeOrderIsSpread checks statistics within one permutation: successors and displacements.
func TestOneLargeOrderIsSpread(t *testing.T) {
	const n, bins = 100_003, 64
	for seed := range trials(3) {
		p := newPerm(newKey("full", seed, 0), n)
		var displaced, followed, parity [bins]uint64
		before := p.at(n - 1)
		for i := range uint64(n) {
			v := p.at(i)
			displaced[bin((v+n-i)%n, n, bins)]++
			followed[bin((v+n-before)%n, n, bins)]++
			parity[(v%8)*8+i%8]++
			before = v
		}
		checkUniform(t, "displacement", displaced[:], binSizes(n, bins))
		checkUniform(t, "successor", followed[:], binSizes(n, bins))
		checkUniform(t, "low bits", parity[:], even(bins))
	}
}

func TestAllSmallPermutationsAreEquallyLikely(t *testing.T) {
	const n = 5
	index := map[[n]uint64]int{}
	got := make([]uint64, 120)
	for epoch := range trials(60_000) {
		p := newPerm(newKey("row", 1, epoch), n)
		var order [n]uint64
		for i := range order {
			order[i] = p.at(uint64(i))
		}
		if _, ok := index[order]; !ok {
			index[order] = len(index)
		}
		got[index[order]]++
	}
	if len(index) != 120 {
		t.Errorf("got %d permutations of %d elements, want 120", len(index), n)
	}
	checkUniform(t, "permutations of 5", got, even(120))
}

// TestDrawsHaveNoBias uses a bound for which a biased generator would return every third result
// twice as often as the others.
func TestDrawsHaveNoBias(t *testing.T) {
	const bound, bins = 3 << 62, 3
	var got [bins]uint64
	for i := range trials(60_000) {
		v := newKey("lane", 5).draw(i, bound)
		if v >= bound {
			t.Fatalf("draw %d: got %d, want below %d", i, v, uint64(bound))
		}
		got[v%bins]++
	}
	checkUniform(t, "thirds", got[:], even(bins))
}

// TestSlot_LastRowIsOfLongerLanes: over many seeds and epochs, an incomplete last row has no
// samples of shorter lanes, and all samples of longer lanes equally often.
func TestSlot_LastRowIsOfLongerLanes(t *testing.T) {
	const lanes, whole, longer = 8, 9, 6
	first := equal(13, 6) // 78 samples
	got, share := make([]uint64, first[13]), make([]float64, first[13])
	shape := mustPlan(t, Params{Shuffle: Slot, Window: lanes}, first)
	order := newPerm(newKey("chunks"), 13)
	for place := range uint64(13) {
		c := order.at(place)
		for i := range uint64(6) {
			if shape.lanes.length(shape.lanes.of(place*6+i)) == whole+1 {
				share[first[c]+i] = 1. / (longer * (whole + 1))
			}
		}
	}
	for seed := range uint64(10) {
		p := mustPlan(t, Params{Shuffle: Slot, Window: lanes, Seed: seed}, first)
		for epoch := range trials(1000) {
			e := p.Epoch(epoch)
			for at := p.Samples() - longer; at < p.Samples(); at++ {
				got[e.At(at)]++
			}
		}
	}
	checkUniform(t, "last row", got, share)
}
