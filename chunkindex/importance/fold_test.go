package importance

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFoldRanksByLoss(t *testing.T) {
	r := Report{Plan: "p", Batch: 1, First: 8, Count: 8, Positions: []uint64{8, 9, 11, 12, 15}, Losses: []float64{2, .5, 2, -1, 7}}
	want := foldedBatch{
		positions: []uint64{8, 9, 11, 12, 15},
		weights:   []uint32{Weight(2), Weight(1), Weight(3), Weight(0), Weight(4)},
	}
	if got := fold([]*Report{&r}, weightTable(8)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFoldTakesTheLowerOfTwoLosses(t *testing.T) {
	a := Report{Positions: []uint64{1, 2, 3}, Losses: []float64{5, 5, 1}}
	b := Report{Positions: []uint64{2, 3}, Losses: []float64{.5, 1}}
	c := Report{Positions: []uint64{2}, Losses: []float64{9}}
	want := foldedBatch{positions: []uint64{1, 2, 3}, weights: []uint32{Weight(2), Weight(0), Weight(1)}, conflicts: 1}
	for _, reports := range [][]*Report{{&a, &b, &c}, {&c, &b, &a}, {&b, &c, &a}} {
		if got := fold(reports, weightTable(8)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestFoldIsAFunctionOfTheLosses divides the same losses into reports in many different ways.
func TestFoldIsAFunctionOfTheLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		losses := rapid.SliceOfN(rapid.SampledFrom([]float64{0, .25, .5, 1, 1, 3, -2}), 1, 40).Draw(t, "losses")
		whole := Report{}
		for p, l := range losses {
			whole.Positions, whole.Losses = append(whole.Positions, uint64(p)), append(whole.Losses, l)
		}
		var parts []*Report
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			part := &Report{}
			for p, l := range losses {
				if rapid.Bool().Draw(t, "in") {
					part.Positions, part.Losses = append(part.Positions, uint64(p)), append(part.Losses, l)
				}
			}
			parts = append(parts, part)
		}
		at := rapid.IntRange(0, len(parts)).Draw(t, "place of the whole")
		parts = slices.Insert(parts, at, &whole)
		got := fold(parts, weightTable(uint64(len(losses))))
		if want := (foldedBatch{positions: whole.Positions, weights: slowWeights(losses)}); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// slowWeights determines ranks by counting, for each position, the positions that rank lower.
func slowWeights(losses []float64) []uint32 {
	weights := make([]uint32, len(losses))
	for i := range losses {
		rank := uint64(0)
		for j := range losses {
			if cmp.Or(cmp.Compare(losses[j], losses[i]), cmp.Compare(j, i)) < 0 {
				rank++
			}
		}
		weights[i] = Weight(rank)
	}
	return weights
}
