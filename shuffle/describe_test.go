package shuffle

import (
	"math"
	"runtime"
	"testing"
)

func TestOrderDigestNamesTheOrder(t *testing.T) {
	digest := func(params Params, first []uint64) string { return mustPlan(t, params, first).OrderDigest() }
	base := Params{Shuffle: Slot, Window: 8, Seed: 1}
	first := prefix(3, 0, 5, 9)
	seen := map[string]int{}
	for i, d := range []string{
		digest(base, first),
		digest(Params{Shuffle: Window, Window: 8, Seed: 1}, first),
		digest(Params{Shuffle: Slot, Window: 9, Seed: 1}, first),
		digest(Params{Shuffle: Slot, Window: 8, Seed: 2}, first),
		digest(base, prefix(3, 5, 0, 9)),
		digest(base, prefix(3, 0, 5, 9, 0)),
		digest(base, equal(5000, 2)),
		digest(Params{Shuffle: Window, Window: 8, Strata: 4, Seed: 1}, first),
		digest(Params{Shuffle: Window, Window: 8, Strata: 8, Seed: 1}, first),
		digest(Params{Shuffle: Window, Window: 8, Strata: 1, Seed: 1}, first),
		digest(Params{Shuffle: None}, first),
		digest(Params{Shuffle: Full}, first),
		digest(Params{Shuffle: Full, Seed: 1}, first),
	} {
		if before, ok := seen[d]; ok {
			t.Errorf("order %d has the digest of order %d", i, before)
		}
		seen[d] = i
	}
	if got, want := digest(base, prefix(3, 0, 5, 9)), digest(base, first); got != want {
		t.Errorf("the same order twice: got %s, want %s", got, want)
	}
	// What an order does not depend on is not in its digest.
	if got, want := digest(Params{Shuffle: Full, Window: 7}, prefix(17)), digest(Params{Shuffle: Full}, first); got != want {
		t.Errorf("full, other chunks of as many samples: got %s, want %s", got, want)
	}
	if got, want := digest(Params{Shuffle: None, Seed: 7}, first), digest(Params{Shuffle: None}, first); got != want {
		t.Errorf("none, another seed: got %s, want %s", got, want)
	}
	// It is stored and compared between releases.
	if got, want := digest(base, first), "485c287f0adc1dfb60ef4caade29a20d"; got != want {
		t.Errorf("got %s, want %s as released", got, want)
	}
}

func TestMemory(t *testing.T) {
	lengths := []uint64{5, 100, 7, 3, 50, 1}
	for _, c := range []struct {
		params Params
		want   uint64
	}{
		{Params{Shuffle: None}, 150},
		{Params{Shuffle: Window, Window: 1}, 150},
		{Params{Shuffle: Window, Window: 2}, 162},
		{Params{Shuffle: Window, Window: 4}, 166},
		{Params{Shuffle: Window, Window: math.MaxUint64}, 166},
		{Params{Shuffle: Window, Window: 2, Strata: 2}, 162},
		{Params{Shuffle: Slot, Window: 2}, 166},
		{Params{Shuffle: Full}, 166},
	} {
		if got := Memory(c.params, lengths); got != c.want {
			t.Errorf("%+v: got %d bytes, want %d", c.params, got, c.want)
		}
	}
	many := make([]uint64, 1000)
	for i := range many {
		many[i] = 8
	}
	if got, want := Memory(Params{Shuffle: Slot, Window: 128}, many), uint64(8*(128+inFlight)); got != want {
		t.Errorf("slot over equal chunks: got %d bytes, want %d", got, want)
	}
	if got := Memory(Params{Shuffle: None}, nil); got != 0 {
		t.Errorf("no chunks: got %d bytes, want 0", got)
	}
}

// TestVarianceIsANumber looks where formulas divide by nothing: few chunks, of few samples.
func TestVarianceIsANumber(t *testing.T) {
	for _, name := range []string{None, Window, Slot, Full} {
		for n := range uint64(6 * 6 * 6 * 6) {
			params := Params{Shuffle: name, Window: n%6 + 1}
			chunks, c, batch := n/6%6, n/36%6, n/216+1
			if got := Variance(params, chunks, c, batch); !(got >= 0 && got <= math.MaxFloat32) {
				t.Errorf("%+v, %d chunks of %d samples, batches of %d: got %v, want a number", params, chunks, c, batch, got)
			}
		}
	}
}

// TestVarianceOfTheDefault pins figures that users read when they choose.
func TestVarianceOfTheDefault(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   float64
	}{
		{Params{Shuffle: Slot, Window: 32}, 7.3},
		{Params{Shuffle: Slot, Window: 64}, 3.4},
		{Params{Shuffle: Slot, Window: 128}, 1.5},
		{Params{Shuffle: Window, Window: 16}, 16.3},
		{Params{Shuffle: Window, Window: 32}, 8.3},
		{Params{Shuffle: Window, Window: 64}, 4.4},
		{Params{Shuffle: Window, Window: 64, Strata: 16}, 4.4},
		{Params{Shuffle: Window, Window: 512}, 1},
		{Params{Shuffle: Full}, 1},
		{Params{Shuffle: None}, 256},
	} {
		if got := Variance(c.params, 512, 128, 256); math.Abs(got-c.want) > .04*c.want {
			t.Errorf("%+v: got %.2f, want %.1f within 4 in 100", c.params, got, c.want)
		}
	}
}

// TestVarianceOfHugeBatches holds the figures of batches that are too large to look at: those below were simulated sample by sample.
func TestVarianceOfHugeBatches(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   float64
	}{
		{Params{Shuffle: Slot, Window: 2}, 31356.5},
		{Params{Shuffle: Slot, Window: 40}, 8549.5},
		{Params{Shuffle: Window, Window: 4}, 33288.1},
		{Params{Shuffle: Window, Window: 30}, 22390.3},
	} {
		if got := Variance(c.params, 64, 1<<16, 1<<21); math.Abs(got-c.want) > .01*c.want {
			t.Errorf("%+v: got %.1f, want %.1f within 1 in 100", c.params, got, c.want)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Variance(Params{Shuffle: Slot, Window: 128}, 1<<12, 1<<16, 1<<27)
	runtime.ReadMemStats(&after)
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(32<<20); got > want {
		t.Errorf("a batch of 2^27 samples: got %d bytes allocated, want at most %d", got, want)
	}
}

// TestVarianceWithStrata compares with epochs of the order itself, where windows of whole rows are alike and where they are not.
func TestVarianceWithStrata(t *testing.T) {
	for _, c := range []struct {
		params Params
		chunks uint64
	}{
		{Params{Shuffle: Window, Window: 32, Strata: 8}, 256},
		{Params{Shuffle: Window, Window: 64, Strata: 64}, 130},
		{Params{Shuffle: Window, Window: 96, Strata: 32}, 520},
	} {
		sum := 0.
		const seeds = 40
		for seed := range uint64(seeds) {
			c.params.Seed = seed
			sum += simulateVariance(c.params, c.chunks, 64, 128)
		}
		want := sum / seeds
		if got := Variance(c.params, c.chunks, 64, 128); math.Abs(got-want) > .05*want {
			t.Errorf("%+v, %d chunks: got %.2f, want %.2f within 5 in 100", c.params, c.chunks, got, want)
		}
	}
}

// TestVarianceOfOneWindowIsThatOfFull has strata whose last row is short, all of them in one window.
func TestVarianceOfOneWindowIsThatOfFull(t *testing.T) {
	full := Variance(Params{Shuffle: Full}, 100, 128, 256)
	for _, params := range []Params{
		{Shuffle: Window, Window: 100}, {Shuffle: Window, Window: 128, Strata: 64}, {Shuffle: Window, Window: 4096, Strata: 4096},
	} {
		if got := Variance(params, 100, 128, 256); math.Abs(got-full) > 1e-12 {
			t.Errorf("%+v: got %v, want %v", params, got, full)
		}
	}
}
