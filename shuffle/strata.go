package shuffle

import "slices"

// newStrata returns the stratum, from 0 to k-1, of each of n chunks: perm(key("strata"); n)(c) mod
// k. It is independent of seed and epoch. The sizes of strata differ by at most one chunk.
func newStrata(n, k uint64) []uint32 {
	strata := make([]uint32, 0, n)
	p := newPerm(newKey("strata"), n)
	for v := range p.all {
		strata = append(strata, uint32(v%k))
	}
	return strata
}

// stratify returns a sequence that takes, row by row, the next chunk of each of k strata, in the
// order of the given sequence. row is the key of a row, without its number. Every row has a chunk
// of every stratum, except the last row, which has chunks of the first strata.
func stratify(row key, sequence, strata []uint32, k uint64) []uint32 {
	n := uint64(len(sequence))
	grid := make([]uint32, n) // row*k + stratum -> chunk
	taken := make([]uint64, min(k, n))
	for _, c := range sequence {
		s := uint64(strata[c])
		grid[taken[s]*k+s] = c
		taken[s]++
	}
	out := sequence[:0]
	var perm perm
	var order []uint64
	for r := uint64(0); r*k < n; r++ {
		perm.reset(row.with(r), k)
		left := grid[r*k : min(n, (r+1)*k)]
		if uint64(len(left)) == k {
			order = perm.appendRange(order[:0], 0, k)
		} else {
			order = order[:0]
			for s := range left {
				order = append(order, perm.place(uint64(s)))
			}
			order = ranked(order)
		}
		for _, s := range order {
			out = append(out, left[s])
		}
	}
	return out
}

// ranked returns the indices of distinct numbers in ascending order of the numbers.
func ranked(numbers []uint64) []uint64 {
	index := make([]uint64, len(numbers))
	for i := range index {
		index[i] = uint64(i)
	}
	slices.SortFunc(index, func(a, b uint64) int {
		if numbers[a] < numbers[b] {
			return -1
		}
		return 1
	})
	return index
}
