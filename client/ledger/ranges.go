package ledger

import (
	"cmp"
	"slices"
)

// runs is a set of positions: disjoint ranges, ascending, none adjacent to the next.
type runs []Range

func compare(e, f, p, q uint64) int { return cmp.Or(cmp.Compare(e, f), cmp.Compare(p, q)) }

// ranges returns the set of the positions of a list.
func ranges(list []Range) runs {
	set, _ := join(list)
	return set
}

// join returns the set of the positions of a list, and those that the list has more than once.
func join(list []Range) (set, twice runs) {
	sorted := func(a, b Range) int { return compare(a.Epoch, b.Epoch, a.First, b.First) }
	if !slices.IsSortedFunc(list, sorted) {
		list = slices.SortedFunc(slices.Values(list), sorted)
	}
	for _, r := range list {
		if len(set) == 0 || set[len(set)-1].Epoch != r.Epoch || set[len(set)-1].End < r.First {
			set = append(set, r)
			continue
		}
		last := &set[len(set)-1]
		if r.First < last.End {
			twice = append(twice, Range{r.Epoch, r.First, min(r.End, last.End)})
		}
		last.End = max(last.End, r.End)
	}
	if len(twice) > 1 {
		twice, _ = join(twice)
	}
	return set, twice
}

// after returns the number of ranges that end at or before a place.
func (s runs) after(p Place) int {
	i, _ := slices.BinarySearchFunc(s, p, func(r Range, p Place) int {
		if compare(r.Epoch, p.Epoch, r.End, p.Position) <= 0 {
			return -1
		}
		return 1
	})
	return i
}

// contain reports whether the set has all positions of a range.
func (s runs) contain(r Range) bool {
	i := s.after(Place{r.Epoch, r.First})
	return i < len(s) && s[i].Epoch == r.Epoch && s[i].First <= r.First && r.End <= s[i].End
}

// has reports whether the set has a position.
func (s runs) has(p Place) bool { return s.contain(Range{p.Epoch, p.Position, p.Position + 1}) }

// before returns the part of the set before a place.
func (s runs) before(p Place) runs {
	i := s.after(p)
	if i == len(s) || compare(s[i].Epoch, p.Epoch, s[i].First, p.Position) >= 0 {
		return s[:i:i]
	}
	return append(s[:i:i], Range{p.Epoch, s[i].First, p.Position})
}

// without returns the positions of s that are not in t.
func (s runs) without(t runs) (rest runs) {
	i := 0
	for _, r := range s {
		for i < len(t) && compare(t[i].Epoch, r.Epoch, t[i].End, r.First) <= 0 {
			i++
		}
		for j := i; j < len(t) && t[j].Epoch == r.Epoch && t[j].First < r.End; j++ {
			if r.First < t[j].First {
				rest = append(rest, Range{r.Epoch, r.First, t[j].First})
			}
			r.First = max(r.First, t[j].End)
		}
		if r.First < r.End {
			rest = append(rest, r)
		}
	}
	return rest
}

// positions returns the number of positions in the set.
func (s runs) positions() (n uint64) {
	for _, r := range s {
		n += r.End - r.First
	}
	return n
}

// between returns the positions of a run from one place to another, in epochs of n positions.
func between(from, to Place, n uint64) (set runs) {
	if to.Compare(from) <= 0 {
		return nil
	}
	for i := range to.Epoch - from.Epoch + 1 {
		r := Range{from.Epoch + i, 0, n}
		if i == 0 {
			r.First = from.Position
		}
		if r.Epoch == to.Epoch {
			r.End = to.Position
		}
		if r.First < r.End {
			set = append(set, r)
		}
	}
	return set
}
