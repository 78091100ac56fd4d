package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
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

// checkBijection checks the guarantees that hold for any order on an epoch, sample by sample.
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
	p := Params{
		Shuffle: rapid.SampledFrom([]string{None, Window, Slot, Full}).Draw(t, "shuffle"),
		Window:  rapid.OneOf(rapid.Uint64Range(1, 20), rapid.Uint64Range(100, 300), rapid.Uint64Min(1)).Draw(t, "window"),
		Seed:    rapid.Uint64().Draw(t, "seed"),
	}
	if p.Shuffle == Slot {
		p.Window = min(p.Window, MaxLanes)
	}
	return p
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

// drawPlan draws chunks and returns their plan with these parameters.
func drawPlan(t *rapid.T, params Params) *Plan {
	p, err := NewPlan(params, drawChunks(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryEpochIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawParams(t))
		if err := checkBijection(p.Epoch(rapid.Uint64().Draw(t, "epoch"))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPermutationsUpToAndBeyondTheExactSizeInvert(t *testing.T) {
	for n := uint64(1); n <= 600; n++ {
		p := newPerm(newKey("piece", n), n)
		seen := make([]bool, n)
		for i := range n {
			v := p.at(i)
			if v >= n || seen[v] {
				t.Fatalf("n = %d: place %d holds %d, out of range or held before", n, i, v)
			}
			seen[v] = true
			if got := p.place(v); got != i {
				t.Fatalf("n = %d: place(%d): got %d, want %d", n, v, got, i)
			}
		}
		if n <= exact {
			var table [exact]uint8
			p.table(&table)
			for i := range n {
				if got, want := p.at(i), uint64(table[i]); got != want {
					t.Fatalf("n = %d: at(%d): got %d, want %d as the shuffled table says", n, i, got, want)
				}
			}
		}
	}
}

func TestHugePermutationsInvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(exact+1, maxSamples).Draw(t, "n")
		p := newPerm(newKey("full", rapid.Uint64().Draw(t, "seed")), n)
		i := rapid.Uint64Range(0, n-1).Draw(t, "i")
		v := p.at(i)
		if v >= n {
			t.Fatalf("at(%d): got %d, want below %d", i, v, n)
		}
		if got := p.place(v); got != i {
			t.Fatalf("place(at(%d)): got %d", i, got)
		}
	})
}

// TestAnyRangeEqualsTheWhole: the first position and the size of batches do not change the sequence
// of samples.
func TestAnyRangeEqualsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params, first := drawParams(t), drawChunks(t)
		epoch := rapid.Uint64().Draw(t, "epoch")
		p, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Samples()
		all := p.Epoch(epoch).Append(nil, 0, s)
		lo := rapid.Uint64Range(0, s).Draw(t, "lo")
		hi := rapid.Uint64Range(lo, s).Draw(t, "hi")
		again, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(again.Epoch(epoch).Append(nil, lo, hi)), fmt.Sprint(all[lo:hi]); got != want {
			t.Fatalf("[%d, %d): got %v, want %v", lo, hi, got, want)
		}
	})
}

func TestEpochsSeedsAndShufflesDiffer(t *testing.T) {
	first := equal(40, 30)
	seen := map[string]string{}
	for _, name := range []string{Window, Slot, Full} {
		for _, seed := range []uint64{0, 1, 1 << 32, 1 << 63} {
			for _, epoch := range []uint64{0, 1, 2, 1 << 32, 1<<32 + 1, 1<<64 - 1} {
				p := mustPlan(t, Params{Shuffle: name, Window: 8, Seed: seed}, first)
				e := p.Epoch(epoch)
				if e.Number() != epoch {
					t.Errorf("Number: got %d, want %d", e.Number(), epoch)
				}
				what := fmt.Sprintf("%s, seed %d, epoch %d", name, seed, epoch)
				order := digestOf(e.Append(nil, 0, p.Samples()))
				if before, ok := seen[order]; ok {
					t.Errorf("%s has the order of %s", what, before)
				}
				seen[order] = what
			}
		}
	}
}

// TestALaneKeepsItsChunks checks the part of a slot order that does not depend on epoch or seed.
func TestALaneKeepsItsChunks(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 16, Seed: 3}, equal(100, 50))
	chunks := func(e *Epoch, lane int) map[uint32]bool {
		in := map[uint32]bool{}
		for place := e.slot.firstPiece[lane]; place < e.slot.firstPiece[lane+1]; place++ {
			in[e.slot.pieceChunk[e.slot.pieces[place]]] = true
		}
		return in
	}
	other := mustPlan(t, Params{Shuffle: Slot, Window: 16, Seed: 4}, equal(100, 50))
	a, b := p.Epoch(0), other.Epoch(1)
	moved := false
	for lane := range 16 {
		if got, want := fmt.Sprint(chunks(b, lane)), fmt.Sprint(chunks(a, lane)); got != want {
			t.Errorf("lane %d: got chunks %s, want %s", lane, got, want)
		}
	}
	for i := range a.slot.pieces {
		moved = moved || a.slot.pieces[i] != b.slot.pieces[i]
	}
	if !moved {
		t.Error("no chunk changed its place within its lane from one epoch to the next")
	}
}

// TestWindowsAreShuffledApart compares the windows of one epoch: no two have the same order.
func TestWindowsAreShuffledApart(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Window, Window: 4, Seed: 3}, equal(80, 25)).Epoch(0)
	seen := map[string]uint64{}
	for i := range uint64(20) {
		in := e.window.window(i)
		var order []uint64
		for v := range in.perm.n {
			order = append(order, in.perm.at(v))
		}
		if before, ok := seen[digestOf(order)]; ok {
			t.Errorf("window %d is shuffled as window %d is", i, before)
		}
		seen[digestOf(order)] = i
	}
}

func TestEpochsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{Window, Slot, Full} {
		p := mustPlan(t, Params{Shuffle: name, Window: 7, Seed: 1}, equal(50, 33))
		e := p.Epoch(2)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := checkBijection(e); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := checkSpans(e); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		group.Wait()
	}
}

func TestBadPlansAreRefused(t *testing.T) {
	for _, c := range []struct {
		params Params
		first  []uint64
		want   string
	}{
		{Params{Shuffle: "Slot", Window: 1}, []uint64{0}, `unknown shuffle "Slot"`},
		{Params{}, []uint64{0}, `unknown shuffle ""`},
		{Params{Shuffle: Slot}, []uint64{0}, "window is 0"},
		{Params{Shuffle: Window}, []uint64{0}, "window is 0"},
		{Params{Shuffle: Slot, Window: 1<<20 + 1}, []uint64{0}, "window is 1048577 lanes: must be at most 1048576; to mix all chunks at once, use shuffle window"},
		{Params{Shuffle: None}, nil, "begin with 0"},
		{Params{Shuffle: None}, []uint64{1, 2}, "begin with 0"},
		{Params{Shuffle: Full}, []uint64{0, 5, 4}, "descend at chunk 1"},
		{Params{Shuffle: Full}, []uint64{0, 1 << 63}, "samples, at most"},
	} {
		if _, err := NewPlan(c.params, c.first); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewPlan(%+v, %v): got %v, want an error with %q", c.params, c.first, err, c.want)
		}
	}
	for _, name := range []string{None, Full} {
		if _, err := NewPlan(Params{Shuffle: name}, []uint64{0, 3}); err != nil {
			t.Errorf("NewPlan(%s, window 0): got %v, want no error: it has no window", name, err)
		}
	}
}

func digestOf(samples []uint64) string {
	h := sha256.New()
	for _, x := range samples {
		h.Write(binary.LittleEndian.AppendUint64(nil, x))
	}
	return hex.EncodeToString(h.Sum(nil))
}
