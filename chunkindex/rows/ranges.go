package rows

import (
	"cmp"
	"slices"
)

// Range is a range of a file's bytes.
type Range struct{ Offset, Length int64 }

// End returns the offset behind the last byte.
func (r Range) End() int64 { return r.Offset + r.Length }

// Join sorts ranges and makes one of those that overlap, or lie side by side. Ranges without a byte are left out.
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

// Place returns where a byte of a file lies in ranges of it, as Join returns them, that are put one after another. A byte between two
// of them is taken for the first one of the second.
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
