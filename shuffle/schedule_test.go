package shuffle

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawSchedule appends segments of n sources to a schedule. Some sources are absent.
func drawSchedule(t *rapid.T, after []Segment, n int) []Segment {
	after, first := slices.Clone(after), uint64(0)
	if len(after) > 0 {
		first = after[len(after)-1].First
	}
	for range rapid.IntRange(0, 6).Draw(t, "segments") {
		first += rapid.Uint64Range(1, 60).Draw(t, "length")
		after = append(after, Segment{First: first, Weights: drawWeights(t, n)})
	}
	return after
}

// drawWeights draws weights of n sources, not all 0.
func drawWeights(t *rapid.T, n int) []uint64 {
	weights := make([]uint64, n)
	for i := range weights {
		weights[i] = rapid.SampledFrom([]uint64{0, 0, 1, 2, 3, 7, 1 << 33, maxSamples >> 11}).Draw(t, "weight")
	}
	if slices.Max(weights) == 0 {
		weights[rapid.IntRange(0, n-1).Draw(t, "present")] = 5
	}
	return weights
}

// scheduled returns a mixture whose segment 0 is the first of a schedule.
func scheduled(t rapid.TB, seed, samples uint64, sizes []uint64, schedule []Segment) *Mixture {
	from := make([]Ingredient, len(sizes))
	for i, n := range sizes {
		from[i] = Ingredient{Samples: n, Weight: schedule[0].Weights[i]}
	}
	if len(schedule) == 1 { // an absent source requires a schedule
		schedule = append(schedule, Segment{First: maxSamples, Weights: schedule[0].Weights})
	}
	m, err := NewMixture(seed, samples, from, schedule[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSchedule_PrefixProperty edits a schedule from a position on, and appends sources. The
// positions before the edit, their counts and their digests stay.
func TestSchedule_PrefixProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Uint64Range(1, 40), 1, 5).Draw(t, "sizes")
		seed, samples := rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(1, 120).Draw(t, "T")
		past := drawSchedule(t, []Segment{{Weights: drawWeights(t, len(sizes))}}, len(sizes))
		was := scheduled(t, seed, samples, sizes, drawSchedule(t, past, len(sizes)))
		longer := append(slices.Clone(sizes), rapid.SliceOfN(rapid.Uint64Range(1, 40), 0, 3).Draw(t, "appended")...)
		future := slices.Clone(past)
		for i := range future {
			future[i].Weights = append(slices.Clone(future[i].Weights), make([]uint64, len(longer)-len(sizes))...)
		}
		edited := scheduled(t, seed, samples, longer, drawSchedule(t, future, len(longer)))
		plans := make([]string, len(longer))
		for i := range plans {
			plans[i] = fmt.Sprintf("%032d", i)
		}
		end := uint64(1 << 20) // first position of the first segment that differs
		for s := range max(len(was.segments), len(edited.segments)) {
			if s >= len(was.segments) || s >= len(edited.segments) || !sameSegment(was.segments[s], edited.segments[s]) {
				end = min(orEnd(was.segments, s), orEnd(edited.segments, s))
				break
			}
		}
		for p := range min(end+1, 3*samples) {
			epoch, at := p/samples, p%samples
			counts := edited.Counts(epoch, at)
			if want := was.Counts(epoch, at); !slices.Equal(counts[:len(sizes)], want) || slices.Max(append(counts[len(sizes):], 0)) > 0 {
				t.Fatalf("counts before position %d: got %v, want %v", p, counts, want)
			}
			if was.Until(epoch, at).OrderDigest(plans) != edited.Until(epoch, at).OrderDigest(plans) {
				t.Fatalf("the edit from %d on changes the digest at %d", end, p)
			}
			if got, want := edited.At(epoch, at), was.At(epoch, at); p < end && (got != want || was.Until(epoch, at+1).At(epoch, at) != want) {
				t.Fatalf("position %d: got %+v, want %+v", p, got, want)
			}
		}
		if after := end + 1; after < 3*samples && was.Until(after/samples, after%samples).OrderDigest(plans) == edited.Until(after/samples, after%samples).OrderDigest(plans) {
			t.Fatalf("the edit from %d on does not change the digest at %d", end, after)
		}
	})
}

// orEnd returns the first position of a segment, or a position after all.
func orEnd(of []segment, s int) uint64 {
	if s < len(of) {
		return of[s].first
	}
	return 1 << 20
}

// sameSegment reports whether b has the positions and weights of a, and 0 for more sources.
func sameSegment(a, b segment) bool {
	for i, s := range b.shares {
		if i < len(a.shares) && s.weight != a.shares[i].weight || i >= len(a.shares) && s.weight > 0 {
			return false
		}
	}
	return a.first == b.first
}

// TestSchedule_StaysNearItsWeights compares the counts within each segment with the weights, in big
// integers, over the whole range of positions.
func TestSchedule_StaysNearItsWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 12).Draw(t, "sources")
		schedule := []Segment{{Weights: drawWeights(t, k)}}
		for _, first := range rapid.SliceOfNDistinct(rapid.Uint64Range(1, maxSamples-1), 1, 5, rapid.ID).Draw(t, "first") {
			schedule = append(schedule, Segment{First: first, Weights: drawWeights(t, k)})
		}
		slices.SortFunc(schedule, func(a, b Segment) int {
			if a.First < b.First {
				return -1
			}
			return 1
		})
		m := scheduled(t, rapid.Uint64().Draw(t, "seed"), maxSamples, rapid.SliceOfN(rapid.Uint64Range(1, 1<<50), k, k).Draw(t, "sizes"), schedule)
		s := rapid.IntRange(0, len(schedule)-1).Draw(t, "segment")
		end := uint64(maxSamples)
		if s+1 < len(schedule) {
			end = schedule[s+1].First
		}
		first := schedule[s].First
		at := rapid.Uint64Range(first, end-1).Draw(t, "t")
		start, before, after := m.Counts(0, first), m.Counts(0, at), m.Counts(0, at+1)
		total, sum, steps := new(big.Int), uint64(0), uint64(0)
		for _, w := range schedule[s].Weights {
			total.Add(total, new(big.Int).SetUint64(w))
		}
		for i, n := range before {
			if n < start[i] || after[i] < n {
				t.Fatalf("the count of source %d falls: %d, %d, %d", i, start[i], n, after[i])
			}
			sum, steps = sum+n, steps+after[i]-n
			off := new(big.Int).Mul(new(big.Int).SetUint64(n-start[i]), total)
			off.Sub(off, new(big.Int).Mul(new(big.Int).SetUint64(at-first), new(big.Int).SetUint64(schedule[s].Weights[i])))
			if off.CmpAbs(new(big.Int).Mul(total, big.NewInt(int64(k)))) > 0 {
				t.Fatalf("source %d has %d of %d positions of the segment, more than %d from its share", i, n-start[i], at-first, k)
			}
		}
		turn := m.At(0, at)
		if sum != at || steps != 1 || after[turn.Source] != before[turn.Source]+1 || turn != m.turn(turn.Source, before[turn.Source]) || schedule[s].Weights[turn.Source] == 0 {
			t.Fatalf("position %d: got %+v, counts %v, then %v", at, turn, before, after)
		}
		if _, p, ok := m.Find(turn.Source, before[turn.Source]); !ok || p != at {
			t.Fatalf("Find: got %d %v, want %d", p, ok, at)
		}
	})
}

// TestSchedule_BeginsAsMixture compares positions before the first change with the mixture without
// a schedule, and its digest with that of a state there.
func TestSchedule_BeginsAsMixture(t *testing.T) {
	from := []Ingredient{{Samples: 14, Weight: 3}, {Samples: 4, Weight: 1}}
	plain, err := NewMixture(42, 18, from)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMixture(42, 18, append(slices.Clone(from), Ingredient{Samples: 9}), Segment{First: 20, Weights: []uint64{1, 0, 5}})
	if err != nil {
		t.Fatal(err)
	}
	plans := []string{"a", "b", "c"}
	if got, want := m.Append(nil, 0, 0, 18), plain.Append(nil, 0, 0, 18); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := m.Until(1, 2).OrderDigest(plans), plain.OrderDigest(plans); got != want {
		t.Errorf("digest at the first change: got %s, want %s", got, want)
	}
	if m.Until(1, 3).OrderDigest(plans) == plain.OrderDigest(plans) || plain.Until(1, 3) != plain {
		t.Error("the digest after the first change is that without a schedule")
	}
	if m.OrderDigest(plans) != m.Until(1, 3).OrderDigest(plans) {
		t.Error("the digest after all changes is not that of the mixture")
	}
}

func TestSchedule_Refuses(t *testing.T) {
	two := []Ingredient{{Samples: 1, Weight: 1}, {Samples: 1}}
	counts := []Ingredient{{Samples: 1, PerBatch: 1}}
	for name, c := range map[string]struct {
		from     []Ingredient
		schedule []Segment
		want     string
	}{
		"counts":      {counts, []Segment{{1, []uint64{1}}}, "a schedule requires weights"},
		"too many":    {two, make([]Segment, maxSegments), "schedule of 257 segments"},
		"at 0":        {two, []Segment{{0, []uint64{1, 1}}}, "segment 1: begins at position 0"},
		"descending":  {two, []Segment{{5, []uint64{1, 1}}, {5, []uint64{1, 2}}}, "segment 2: begins at position 5"},
		"too late":    {two, []Segment{{maxSamples + 1, []uint64{1, 1}}}, "below 2^63"},
		"one weight":  {two, []Segment{{1, []uint64{1}}}, "segment 1: has 1 weights: must have one for each of 2 sources"},
		"no weight":   {two, []Segment{{1, []uint64{0, 0}}}, "segment 1: has no positive weight"},
		"none at all": {[]Ingredient{{Samples: 1}}, []Segment{{1, []uint64{1}}}, "segment 0: has no positive weight"},
		"weights":     {two, []Segment{{1, []uint64{maxSamples, 1}}}, "segment 1: weights sum to 2^63"},
	} {
		if _, err := NewMixture(0, 0, c.from, c.schedule...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
