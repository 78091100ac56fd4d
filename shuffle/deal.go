package shuffle

import "slices"

// Deal returns one rank's share of a global batch, with bytes balanced between ranks: the ascending
// places of its samples within the batch. lengths are the samples' lengths in bytes, in the order
// of the batch. The samples are sorted, longest first and equal ones by place. They are dealt back
// and forth: to the ranks 0 to worldSize-1, then from the last rank to the first, and so on, which
// balances the bytes. The shares tile the batch and differ by at most one sample. A rank that does
// not exist has no share. The method follows Lobster's balance of I/O between GPUs (Liu et al.,
// ICPP 2022).
func Deal(lengths []uint32, rank, worldSize uint64) []int {
	n := uint64(len(lengths))
	if rank >= worldSize {
		return nil
	}
	// Sorted in ascending order: each word is the complement of a length, followed by a place.
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
