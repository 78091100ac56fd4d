package shuffle

import "slices"

// Deal returns one rank's share of a global batch whose bytes are to be balanced: the places within
// the batch, ascending, of the samples that fall to it. lengths are the samples' lengths in bytes, in
// the order of the batch. The samples, longest first and equal ones by place, are dealt to and
// fro: to the ranks 0 to worldSize-1, then back from the last to the first, and so on. Shares tile
// the batch and differ by at most one sample, and dealing to and fro evens out what the first rank of each row has more.
// A rank that does not exist has no share. After Lobster's balance of I/O between GPUs (Liu et al., ICPP 2022).
func Deal(lengths []uint32, rank, worldSize uint64) []int {
	n := uint64(len(lengths))
	if rank >= worldSize {
		return nil
	}
	// Ascending words: the complement of a length, then a place.
	words := make([]uint64, n)
	for i, l := range lengths {
		words[i] = uint64(^l)<<32 | uint64(uint32(i))
	}
	slices.Sort(words)
	share := make([]int, 0, n/worldSize+1)
	for row := uint64(0); row*worldSize < n; row++ {
		at := row*worldSize + rank
		if row%2 == 1 {
			at = (row+1)*worldSize - 1 - rank
		}
		if at < n {
			share = append(share, int(uint32(words[at])))
		}
	}
	slices.Sort(share)
	return share
}
