package published

import (
	"cmp"
	"slices"
)

// LengthGrouped returns the order of Transformers' group_by_length (get_length_grouped_indices in
// trainer_pt_utils.py, the same in 4.47 and 5.24). permuted is a random permutation of the samples,
// and batch is the batch size of a rank. Megabatches of at most 50 batches of the permutation are
// sorted, the longest sample first. The longest sample of all then changes places with the first.
func LengthGrouped(permuted []int, lengths []uint32, batch int) []int {
	order := slices.Clone(permuted)
	size := batch * max(min(len(order)/(batch*4), 50), 1)
	longest := 0 // the first place of the megabatch with the longest sample
	for at := 0; at < len(order); at += size {
		mega := order[at:min(at+size, len(order))]
		slices.SortStableFunc(mega, func(x, y int) int { return cmp.Compare(lengths[y], lengths[x]) })
		if lengths[mega[0]] > lengths[order[longest]] {
			longest = at
		}
	}
	if len(order) > 0 {
		order[0], order[longest] = order[longest], order[0]
	}
	return order
}
