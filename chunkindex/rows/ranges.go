package rows

import (
	"cmp"
	"slices"
)

// Range is a range of a file's bytes.
type Range struct{ Offset, Length int64 }

// End returns the offset after the last byte.
func (r Range) End() int64 { return r.Offset + r.Length }

// Join sorts ranges and merges those that overlap or are adjacent. Empty ranges are removed.
func Join(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	joined := ranges[:0]
	for _, r := range ranges {
		switch n := len(joined); {
		case r.Length == 0:
		case n > 0 && r.Offset <= joined[n-1].End():
			joined[n-1].Length = max(joined[n-1].Length, r.End()-joined[n-1].Offset)
		default:
			joined = append(joined, r)
		}
	}
	return joined
}

// Place returns the position of a file's byte in the concatenation of the ranges. ranges is a
// result of Join. A byte between two ranges has the position of the second range's first byte.
func Place(ranges []Range, offset int64) int64 {
	before := int64(0)
	for _, r := range ranges {
		if offset < r.End() {
			return before + max(0, offset-r.Offset)
		}
		before += r.Length
	}
	return before
}
