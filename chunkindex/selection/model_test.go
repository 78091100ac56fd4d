package selection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawnDataset draws up to six chunks, some of which are empty.
func drawnDataset(t *rapid.T) dataset {
	return testDataset(rapid.SliceOfN(rapid.IntRange(0, 20), 1, 6).Draw(t, "samples of the chunks")...)
}

// drawnStep draws either a rule by names with one of its subsets, or ranges of positions.
func drawnStep(t *rapid.T, samples uint64) Step {
	if rapid.Bool().Draw(t, "by names") {
		rule := rapid.SampledFrom([]string{"a=1,b=1", "a=1,b=2,c=4", "a=1"}).Draw(t, "rule")
		r, err := ParseRule(rule, rapid.SampledFrom([]string{"", "salt"}).Draw(t, "salt"))
		if err != nil {
			t.Fatal(err)
		}
		return Step{Rule: r, Name: rapid.SampledFrom(r.Parts).Draw(t, "subset").Name}
	}
	var s Step
	for from := uint64(0); len(s.Places) == 0 || rapid.Bool().Draw(t, "one more run"); {
		first := from + rapid.Uint64Range(0, samples).Draw(t, "first place")
		last := first + rapid.Uint64Range(0, samples/2).Draw(t, "more places")
		s.Places, from = append(s.Places, Places{first, last}), last+1
	}
	return s
}

// left returns the samples that a step keeps. It decides for one sample at a time.
func (s Step) left(d dataset, samples []uint64) (out []uint64) {
	keys := slices.Concat(d...)
	for place, sample := range samples {
		keep := slices.ContainsFunc(s.Places, func(p Places) bool { return p.First <= uint64(place) && uint64(place) <= p.Last })
		if len(s.Places) == 0 {
			keep = s.Rule.Parts[newSorter(s.Rule).part([]byte(keys[sample]))].Name == s.Name
		}
		if keep {
			out = append(out, sample)
		}
	}
	return out
}

// some is a subset of listed samples.
type some struct {
	bitmaps [][]byte
	samples []uint64
}

func (s some) Bitmap(_ context.Context, chunk int) ([]byte, error) { return s.bitmaps[chunk], nil }

func drawnSubset(t *rapid.T, d dataset) (s some) {
	for chunk := range d {
		b := make([]byte, bitmapSize(uint64(len(d[chunk]))))
		for i := range d[chunk] {
			if rapid.Bool().Draw(t, "of the base") {
				b[i/8] |= 1 << (i % 8)
				s.samples = append(s.samples, d.First()[chunk]+uint64(i))
			}
		}
		s.bitmaps = append(s.bitmaps, b)
	}
	return s
}

// TestNewCut_AgreesWithItsStepsOneByOne compares cuts with lists that are computed step by step and
// sample by sample.
func TestNewCut_AgreesWithItsStepsOneByOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := drawnDataset(r)
		all := make([]uint64, d.First()[len(d)])
		for i := range all {
			all[i] = uint64(i)
		}
		want, base, before := all, Base(nil), some{}
		if rapid.Bool().Draw(r, "with a base") {
			before = drawnSubset(r, d)
			base, want = before, before.samples
		}
		bitmaps := fmt.Sprint(before.bitmaps)
		steps := make([]Step, rapid.IntRange(0, 3).Draw(r, "steps"))
		for i := range steps {
			steps[i] = drawnStep(r, uint64(len(all)))
			want = steps[i].left(d, want)
		}
		c, err := NewCut(t.Context(), d, d.First(), base, steps)
		if err != nil {
			r.Fatal(err)
		}
		if got := numbers(t, d, c.Members(), c.Bitmap); !slices.Equal(got, want) {
			r.Errorf("got %v, want %v", got, want)
		}
		runs := -1
		if len(steps) == 1 && base == nil && len(steps[0].Places) > 0 {
			runs = len(steps[0].Places)
		}
		if got, most := c.Bytes(), CutBytes(d.First(), runs); got > most {
			r.Errorf("got %d bytes of memory, want at most %d", got, most)
		}
		if got := fmt.Sprint(before.bitmaps); got != bitmaps {
			r.Errorf("the base's bitmaps were changed from %s to %s", bitmaps, got)
		}
	})
}

// TestStore_ListsWhatWasMade creates splits and quarantines of two generations in any order. The
// first split of a generation must always be its default, and existing objects must not be created
// again.
func TestStore_ListsWhatWasMade(t *testing.T) {
	generations := []generated{{testDataset(9, 4), strings.Repeat("11", 32)}, {testDataset(9, 4, 3), strings.Repeat("22", 32)}}
	rules := []Rule{mustRule(t, "a=1,b=1", ""), mustRule(t, "a=1,b=1", "salt"), mustRule(t, "a=2,b=1", "")}
	rapid.Check(t, func(r *rapid.T) {
		s, _ := newStore(t)
		defaults, made, lists := map[string]string{}, map[string]string{}, map[string]uint64{}
		for range rapid.IntRange(0, 8).Draw(r, "objects") {
			d := rapid.SampledFrom(generations).Draw(r, "generation")
			if rapid.Bool().Draw(r, "a quarantine") {
				bad := rapid.Permutation([]Bad{{1, "x", ""}, {4, "y", "dark"}, {7, "z", ""}}).Draw(r, "samples")
				bad = bad[:rapid.IntRange(1, 3).Draw(r, "bad ones")]
				given := slices.Clone(bad)
				digest, created, err := s.Quarantine(t.Context(), Quarantine{d.generation, 13, bad})
				if known := lists[digest] > 0; err != nil || created == known || !slices.Equal(bad, given) {
					r.Errorf("quarantine %v of %v: got created=%t, %v; known before: %t", bad, given, created, err, known)
				}
				lists[digest] = uint64(len(bad))
				continue
			}
			rule := rapid.SampledFrom(rules).Draw(r, "rule")
			m, err := s.Split(t.Context(), d, rule)
			if defaults[d.generation] == "" {
				defaults[d.generation] = m.Digest
			}
			what := d.generation + rule.Salt + rule.String()
			if _, known := made[m.Digest]; err != nil || m.New == known || known && made[m.Digest] != what || m.Default != defaults[d.generation] {
				r.Errorf("split %s: got %+v, %v; known before: %t, default %s", rule, m, err, known, defaults[d.generation])
			}
			made[m.Digest] = what
		}
		all, err := s.Stored(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		for _, x := range all.Splits {
			if x.Fault != nil || made[x.Digest] != x.Generation+x.Rule.Salt+x.Rule.String() || x.Default != (x.Digest == defaults[x.Generation]) {
				r.Errorf("got the split %+v, want %s", x, made[x.Digest])
			}
		}
		for _, x := range all.Quarantines {
			if x.Fault != nil || lists[x.Digest] != x.Bad {
				r.Errorf("got the quarantine %+v, want one of %d samples", x, lists[x.Digest])
			}
		}
		if len(all.Splits) != len(made) || len(all.Quarantines) != len(lists) || len(all.Defaults) != len(defaults) {
			r.Errorf("got %+v, want %d splits, %d quarantines and %d defaults", all, len(made), len(lists), len(defaults))
		}
	})
}

// generated is a dataset with a given generation.
type generated struct {
	dataset
	generation string
}

func (g generated) Generation() string { return g.generation }

// TestQuarantine_NumbersOfAnotherGeneration compares the numbers with the positions of the keys in
// a list.
func TestQuarantine_NumbersOfAnotherGeneration(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		of := grown{"22", rapid.Permutation([]string{"a", "b", "c", "x", "y"}).Draw(r, "keys")}
		q := Quarantine{Generation: testGeneration(), Samples: 20}
		want := []uint64{}
		for i, k := range rapid.SliceOfN(key, 1, 8).Draw(r, "bad") {
			q.Bad = append(q.Bad, Bad{Number: uint64(i), Key: k})
		}
		for i, k := range of.keys {
			if slices.ContainsFunc(q.Bad, func(b Bad) bool { return b.Key == k }) {
				want = append(want, uint64(i))
			}
		}
		if got, err := q.Numbers(t.Context(), of); err != nil || !slices.Equal(got, want) {
			r.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
}
