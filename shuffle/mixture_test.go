package shuffle

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawMixture draws a mixture of a few sources, small enough to enumerate, sometimes with a
// schedule.
func drawMixture(t *rapid.T) (*Mixture, []Ingredient) {
	fixed := rapid.Bool().Draw(t, "fixed")
	var from []Ingredient
	for i := range rapid.IntRange(1, 6).Draw(t, "sources") {
		s := Ingredient{Samples: rapid.Uint64Range(1, 40).Draw(t, fmt.Sprintf("samples %d", i))}
		if fixed {
			s.PerBatch = rapid.Uint64Range(1, 9).Draw(t, fmt.Sprintf("count %d", i))
		} else {
			s.Weight = rapid.SampledFrom([]*rapid.Generator[uint64]{
				rapid.Uint64Range(1, 7), rapid.Uint64Range(1, 1<<60),
			}).Draw(t, "weights").Draw(t, fmt.Sprintf("weight %d", i))
		}
		from = append(from, s)
	}
	var schedule []Segment
	if !fixed && rapid.Bool().Draw(t, "schedule") {
		schedule = drawSchedule(t, nil, len(from))
	}
	m, err := NewMixture(rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(0, 120).Draw(t, "T"), from, schedule...)
	if err != nil {
		t.Fatal(err)
	}
	return m, from
}

func TestMixtureTakesEachOwnPositionOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, from := drawMixture(t)
		epochs := min(m.Epochs(), 3)
		counts := make([]uint64, len(from)) // counts at the current position
		for epoch := range epochs {
			if got := m.Counts(epoch, 0); !slices.Equal(got, counts) {
				t.Fatalf("counts before epoch %d: got %v, want %v", epoch, got, counts)
			}
			for position := range m.Samples() {
				turn := m.At(epoch, position)
				n := counts[turn.Source]
				if got := m.Counts(epoch, position); !slices.Equal(got, counts) {
					t.Fatalf("counts at %d/%d: got %v, want %v", epoch, position, got, counts)
				}
				own := turn.Epoch*from[turn.Source].Samples + turn.Position
				if m.batch == 0 && own != n {
					t.Fatalf("position %d/%d: sample %d of source %d, want %d", epoch, position, own, turn.Source, n)
				}
				if e, p, ok := m.Find(turn.Source, own); !ok || e != epoch || p != position {
					t.Fatalf("Find(%d, %d): got %d/%d %v, want %d/%d", turn.Source, own, e, p, ok, epoch, position)
				}
				counts[turn.Source]++
			}
		}
	})
}

func TestMixtureInFixedCountsTakesEachOwnPositionOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, from := drawMixture(t)
		if m.batch == 0 {
			return
		}
		if m.Samples()%m.batch != 0 {
			t.Fatalf("an epoch of %d positions, want whole batches of %d", m.Samples(), m.batch)
		}
		next := make([]uint64, len(from))
		for batch := range m.Samples() / m.batch {
			seen := make([][]uint64, len(from))
			for _, turn := range m.Append(nil, 0, batch*m.batch, (batch+1)*m.batch) {
				seen[turn.Source] = append(seen[turn.Source], turn.Epoch*from[turn.Source].Samples+turn.Position)
			}
			for i, own := range seen {
				slices.Sort(own)
				for k, n := range own {
					if n != next[i]+uint64(k) {
						t.Fatalf("batch %d: source %d gives %v, want them from %d on", batch, i, own, next[i])
					}
				}
				if next[i] += from[i].PerBatch; uint64(len(own)) != from[i].PerBatch {
					t.Fatalf("batch %d: %d samples of source %d, want %d", batch, len(own), i, from[i].PerBatch)
				}
			}
		}
	})
}

// TestMixtureStaysNearItsWeights compares the counts at any position with the definition, in big
// integers.
func TestMixtureStaysNearItsWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var from []Ingredient
		total := new(big.Int)
		for i := range rapid.IntRange(1, 12).Draw(t, "sources") {
			w := rapid.Uint64Range(1, maxSamples/16).Draw(t, fmt.Sprintf("weight %d", i))
			total.Add(total, new(big.Int).SetUint64(w))
			from = append(from, Ingredient{Samples: rapid.Uint64Range(1, 1<<50).Draw(t, "samples"), Weight: w})
		}
		m, err := NewMixture(rapid.Uint64().Draw(t, "seed"), maxSamples, from)
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.Uint64Range(0, maxSamples-1).Draw(t, "t")
		before, after := m.Counts(0, at), m.Counts(0, at+1)
		var sum, steps uint64
		for i, n := range before {
			sum += n
			if after[i] < n {
				t.Fatalf("source %d steps back: %d, then %d", i, n, after[i])
			}
			steps += after[i] - n
			// |n*W - t*w| <= sources * W
			off := new(big.Int).Mul(new(big.Int).SetUint64(n), total)
			off.Sub(off, new(big.Int).Mul(new(big.Int).SetUint64(at), new(big.Int).SetUint64(from[i].Weight)))
			if off.CmpAbs(new(big.Int).Mul(total, big.NewInt(int64(len(from))))) > 0 {
				t.Fatalf("source %d has %d of %d positions, more than %d from its share", i, n, at, len(from))
			}
		}
		if sum != at || steps != 1 {
			t.Fatalf("at %d: counts sum to %d, and grow by %d", at, sum, steps)
		}
		turn := m.At(0, at)
		if own := before[turn.Source]; after[turn.Source] != own+1 || turn.Epoch != own/from[turn.Source].Samples || turn.Position != own%from[turn.Source].Samples {
			t.Fatalf("position %d: got %+v, want the source that grows, at its sample %d", at, turn, own)
		}
		if e, p, ok := m.Find(turn.Source, before[turn.Source]); !ok || e != 0 || p != at {
			t.Fatalf("Find: got %d/%d %v, want 0/%d", e, p, ok, at)
		}
	})
}

// TestMixture_EndsWithItsLastEpoch uses epochs so long that only a few are below 2^63. Find returns
// the epochs on both sides of each border, and nothing after the last epoch.
func TestMixture_EndsWithItsLastEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, from := drawMixture(t)
		most := rapid.Uint64Range(1, 4).Draw(t, "epochs")
		m, err := NewMixture(rapid.Uint64().Draw(t, "seed"), maxSamples/most-rapid.Uint64Range(60, 120).Draw(t, "less"), from)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Epochs(); got != most {
			t.Fatalf("got %d epochs of %d positions, want %d", got, m.Samples(), most)
		}
		for epoch := range most {
			for i, n := range m.Counts(epoch, m.Samples()) {
				if e, p, ok := m.Find(i, n); ok != (epoch+1 < most) || ok && (e != epoch+1 || m.At(e, p) != m.turn(i, n)) {
					t.Fatalf("sample %d of source %d, the first after epoch %d of %d: got %d/%d %v", n, i, epoch, most, e, p, ok)
				}
				if n == 0 {
					continue // its weight is too low for a sample in an epoch
				}
				if e, p, ok := m.Find(i, n-1); !ok || e != epoch || m.At(e, p) != m.turn(i, n-1) {
					t.Fatalf("sample %d of source %d, the last of epoch %d: got %d/%d %v", n-1, i, epoch, e, p, ok)
				}
			}
		}
	})
}

func TestMixtureRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		samples uint64
		from    []Ingredient
		want    string
	}{
		"no source":      {0, nil, "0 sources"},
		"too many":       {0, make([]Ingredient, maxSources+1), "1025 sources"},
		"empty source":   {0, []Ingredient{{Samples: 1, Weight: 1}, {Weight: 1}}, "source 1 has no samples"},
		"no weight":      {0, []Ingredient{{Samples: 1, Weight: 1}, {Samples: 1}}, "source 1 has weight 0"},
		"some counts":    {0, []Ingredient{{Samples: 1, Weight: 1}, {Samples: 1, PerBatch: 2}}, "all sources have counts or none has"},
		"weights":        {0, []Ingredient{{Samples: 1, Weight: maxSamples}, {Samples: 1, Weight: 1}}, "sum to 2^63"},
		"samples":        {0, []Ingredient{{Samples: maxSamples, Weight: 1}, {Samples: 1, Weight: 1}}, "sum to 2^63"},
		"an epoch":       {maxSamples + 1, []Ingredient{{Samples: 1, Weight: 1}}, "must be at most"},
		"whole batches":  {maxSamples, []Ingredient{{Samples: 1, PerBatch: maxSamples - 1}}, "must be at most"},
		"an epoch of 64": {1<<64 - 1, []Ingredient{{Samples: 1, PerBatch: 5}}, "must be at most"},
	} {
		if _, err := NewMixture(0, c.samples, c.from); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestMixture_DigestCoversInputs(t *testing.T) {
	from := []Ingredient{{Samples: 3, Weight: 1}, {Samples: 5, Weight: 2}}
	digests := map[string]string{}
	var schedule []Segment
	add := func(name string, seed, samples uint64, from []Ingredient, plans ...string) {
		m, err := NewMixture(seed, samples, from, schedule...)
		if err != nil {
			t.Fatal(err)
		}
		d := m.OrderDigest(plans)
		if other, taken := digests[d]; taken {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		digests[d] = name
	}
	add("it", 1, 0, from, "a", "b")
	add("another seed", 2, 0, from, "a", "b")
	add("another length", 1, 9, from, "a", "b")
	add("another weight", 1, 0, []Ingredient{{Samples: 3, Weight: 1}, {Samples: 5, Weight: 3}}, "a", "b")
	add("other sources", 1, 0, from, "a", "c")
	add("other samples", 1, 8, []Ingredient{{Samples: 4, Weight: 1}, {Samples: 4, Weight: 2}}, "a", "b")
	add("counts", 1, 8, []Ingredient{{Samples: 3, PerBatch: 1}, {Samples: 5, PerBatch: 1}}, "a", "b")
	add("other counts", 1, 8, []Ingredient{{Samples: 3, PerBatch: 3}, {Samples: 5, PerBatch: 1}}, "a", "b")
	for name, s := range map[string][]Segment{
		"a schedule": {{3, []uint64{1, 4}}}, "a later one": {{4, []uint64{1, 4}}}, "other weights": {{3, []uint64{4, 1}}}, "two changes": {{3, []uint64{1, 4}}, {4, []uint64{1, 4}}},
	} {
		schedule = s
		add(name, 1, 0, from, "a", "b")
	}
}
