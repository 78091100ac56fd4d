package shuffle

import (
	"math"
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
	// The digest does not include parameters that the order does not depend on.
	if got, want := digest(Params{Shuffle: Full, Window: 7}, prefix(17)), digest(Params{Shuffle: Full}, first); got != want {
		t.Errorf("full, other chunks of as many samples: got %s, want %s", got, want)
	}
	if got, want := digest(Params{Shuffle: None, Seed: 7}, first), digest(Params{Shuffle: None}, first); got != want {
		t.Errorf("none, another seed: got %s, want %s", got, want)
	}
	// Clients store the digest and compare it between releases.
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
	if got := Memory(Params{Shuffle: Window, Window: 3}, append(lengths, 2)); got != 167 {
		t.Errorf("two windows of 3 of 7 chunks: got %d bytes, want 167, without the smallest", got)
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
