package chunkindex

import (
	"testing"

	"pgregory.net/rapid"
)

// TestChunkOf_AgreesWithLinearSearch compares chunkOf with a linear search, for chunks with equal,
// different and zero sample counts.
func TestChunkOf_AgreesWithLinearSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]uint64{0, 1, 3, 1000, 1 << 50}).Draw(t, "most")
		counts := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(0, 2), rapid.Uint64Range(most/2, most)), 0, 200).Draw(t, "counts")
		first := []uint64{0}
		for _, n := range counts {
			first = append(first, first[len(first)-1]+n)
		}
		check := func(sample uint64, want int) {
			if got := chunkOf(first, sample); got != want {
				t.Fatalf("sample %d of chunks that begin at %v: got chunk %d, want %d", sample, first, got, want)
			}
		}
		for c, n := range counts {
			if n > 0 {
				check(first[c], c)
				check(first[c]+n/2, c)
				check(first[c+1]-1, c)
			}
		}
		check(first[len(counts)], len(counts)) // no chunk contains this sample
	})
}
