package importance

import (
	"cmp"
	"slices"
)

// foldedBatch contains the reported positions of one global batch in ascending order, with the
// weight of each.
type foldedBatch struct {
	positions []uint64
	weights   []uint32
	conflicts int // positions with more than one loss
}

type reportedLoss struct {
	position uint64
	loss     float64
}

// fold ranks all reported positions of one global batch by loss; the lowest loss has rank 0. It
// ranks equal losses by position. The rank determines the weight. The result depends only on the
// set of (position, loss) pairs, not on their order, repetition or division into reports. If a race
// stored two losses for one position, the lower loss counts: a conflict must not make a sample
// hotter than both readers measured. All reports must be valid and from one batch. The table must
// have a weight for as many ranks as there are positions.
func fold(reports []*Report, table []uint32) foldedBatch {
	var all []reportedLoss
	for _, r := range reports {
		for i, p := range r.Positions {
			all = append(all, reportedLoss{p, r.Losses[i]})
		}
	}
	slices.SortFunc(all, func(a, b reportedLoss) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.loss, b.loss))
	})
	var out foldedBatch
	disputed := uint64(0) // the last conflicting position plus 1
	once := all[:0]
	for _, s := range all {
		switch last := len(once) - 1; {
		case last < 0 || once[last].position != s.position:
			once = append(once, s)
		case once[last].loss != s.loss && disputed != s.position+1:
			disputed = s.position + 1
			out.conflicts++
		}
	}
	out.positions, out.weights = make([]uint64, len(once)), make([]uint32, len(once))
	order := make([]int, len(once))
	for i, s := range once {
		out.positions[i], order[i] = s.position, i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(once[a].loss, once[b].loss), cmp.Compare(a, b))
	})
	for rank, i := range order {
		out.weights[i] = table[rank]
	}
	return out
}
