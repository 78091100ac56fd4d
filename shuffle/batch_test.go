package shuffle

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSharesTileEveryBatch covers all small epochs, batch sizes, tails and world sizes.
func TestSharesTileEveryBatch(t *testing.T) {
	for s := range uint64(65) {
		for size := uint64(1); size <= 66; size++ {
			for _, tail := range []Tail{Short, Drop, Pad} {
				for world := uint64(1); world <= 8; world++ {
					checkTiling(t, Batching{Samples: s, BatchSize: size, Tail: tail}, world)
				}
			}
		}
	}
}

func checkTiling(t *testing.T, b Batching, world uint64) {
	t.Helper()
	var at, padded uint64
	for m := range b.Batches() {
		for rank := range world {
			s := b.Share(m, rank, world)
			if s.First != at {
				t.Fatalf("%+v: share %d of %d of batch %d begins at %d, want %d", b, rank, world, m, s.First, at)
			}
			n := b.BatchSize
			if left := b.Samples - m*b.BatchSize; b.Tail != Pad && left < n {
				n = left
			}
			if want := (rank+1)*n/world - rank*n/world; s.Count != want {
				t.Fatalf("%+v: share %d of %d of batch %d: got %d samples, want %d", b, rank, world, m, s.Count, want)
			}
			at += s.Count
			padded += s.Padded
		}
	}
	full := b.Samples / b.BatchSize * b.BatchSize
	want := map[Tail]uint64{Short: b.Samples, Drop: full, Pad: full}[b.Tail]
	if b.Tail == Pad && full < b.Samples {
		want += b.BatchSize
	}
	if at != want || padded != want-min(want, b.Samples) {
		t.Fatalf("%+v, world size %d: got %d positions, %d of them padded, want %d and %d", b, world, at, padded, want, want-min(want, b.Samples))
	}
}

func TestHugeBatchingsDoNotOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Batching{
			Samples:   rapid.Uint64Range(1, maxSamples).Draw(t, "samples"),
			BatchSize: rapid.Uint64Range(1, maxSamples).Draw(t, "batch size"),
			Tail:      rapid.SampledFrom([]Tail{Short, Drop, Pad}).Draw(t, "tail"),
		}
		if b.Batches() == 0 {
			return
		}
		world := rapid.Uint64Min(1).Draw(t, "world size")
		rank := rapid.Uint64Range(0, world-1).Draw(t, "rank")
		m := b.Batches() - 1
		got, first := b.Share(m, rank, world), b.Share(m, 0, 1)
		if end := got.First + got.Count; got.First < first.First || end < got.First || end > first.First+first.Count {
			t.Fatalf("%+v: share %+v is outside of batch %+v", b, got, first)
		}
	})
}

func TestShare_ZeroIfMissing(t *testing.T) {
	b := Batching{Samples: 10, BatchSize: 4, Tail: Short}
	for _, c := range [][3]uint64{{3, 0, 1}, {math.MaxUint64, 0, 1}, {0, 1, 1}, {0, 0, 0}} {
		if got := b.Share(c[0], c[1], c[2]); got != (Share{}) {
			t.Errorf("Share(%v): got %+v, want the zero share", c, got)
		}
	}
	if got := (Batching{Samples: 10, Tail: Short}).Batches(); got != 0 {
		t.Errorf("batch size 0: got %d batches, want 0", got)
	}
}

func TestPaddingRepeatsTheEpochFromItsStart(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Full, Seed: 9}, equal(1, 5)).Epoch(0)
	all := e.Append(nil, 0, 5)
	share := Batching{Samples: 5, BatchSize: 13, Tail: Pad}.Share(0, 0, 1)
	if share.Padded != 8 {
		t.Errorf("padded: got %d, want 8", share.Padded)
	}
	want := slices.Concat(all, all, all[:3])
	if got := e.AppendShare(nil, share); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	second := Batching{Samples: 5, BatchSize: 13, Tail: Pad}.Share(0, 1, 4) // positions 3 to 5
	if got := e.AppendShare(nil, second); !slices.Equal(got, want[3:6]) {
		t.Errorf("second share: got %v, want %v", got, want[3:6])
	}
}
