package shuffle

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func prefix(counts ...uint64) []uint64 {
	first := make([]uint64, 1, len(counts)+1)
	for _, c := range counts {
		first = append(first, first[len(first)-1]+c)
	}
	return first
}

// equal returns the prefix sums of n chunks of c samples.
func equal(n, c uint64) []uint64 {
	first := make([]uint64, n+1)
	for i := range first {
		first[i] = uint64(i) * c
	}
	return first
}

func mustPlan(t testing.TB, params Params, first []uint64) *Plan {
	t.Helper()
	p, err := NewPlan(params, first)
	if err != nil {
		t.Fatalf("NewPlan(%+v): %v", params, err)
	}
	return p
}

// checkBijection holds an epoch against what every order promises, sample by sample.
func checkBijection(e *Epoch) error {
	s := e.plan.Samples()
	all := e.Append(nil, 0, s)
	if uint64(len(all)) != s {
		return fmt.Errorf("Append(0, %d): got %d samples", s, len(all))
	}
	seen := make([]bool, s)
	for t, x := range all {
		if x >= s || seen[x] {
			return fmt.Errorf("position %d: sample %d is out of range or came before", t, x)
		}
		seen[x] = true
		if got := e.At(uint64(t)); got != x {
			return fmt.Errorf("At(%d): got %d, want %d as Append says", t, got, x)
		}
		if got := e.Position(x); got != uint64(t) {
			return fmt.Errorf("Position(%d): got %d, want %d", x, got, t)
		}
	}
	return nil
}

func drawParams(t *rapid.T) Params {
	return Params{
		Shuffle: rapid.SampledFrom([]string{None, Window, Slot, Full}).Draw(t, "shuffle"),
		Window:  rapid.OneOf(rapid.Uint64Range(1, 20), rapid.Uint64Range(100, 300), rapid.Uint64Min(1)).Draw(t, "window"),
		Seed:    rapid.Uint64().Draw(t, "seed"),
	}
}

func drawChunks(t *rapid.T) []uint64 {
	counts := rapid.OneOf(
		rapid.SliceOfN(rapid.Uint64Range(0, 4), 0, 40),
		rapid.SliceOfN(rapid.Uint64Range(0, 60), 0, 30),
		rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 1, 7, 400}), 0, 12),
		rapid.SliceOfN(rapid.Just(uint64(3)), 100, 300),
	).Draw(t, "counts")
	return prefix(counts...)
}

func TestEveryEpochIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params, first := drawParams(t), drawChunks(t)
		p, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkBijection(p.Epoch(rapid.Uint64().Draw(t, "epoch"))); err != nil {
			t.Fatal(err)
		}
	})
}
