package published

import (
	"cmp"
	"fmt"
	"slices"
)

// Rebalance divides a batch among ranks as Transformers 5.24 does with batch_rebalance
// (BatchRebalanceSampler in trainer_pt_utils.py), each rank's share into micro-batches. The groups
// are contiguous parts of the batch sorted by length. Their sizes change until their costs are about
// equal, which are those of padded samples: n * longest + quadratic * n * longest^2. Its result has
// the places of each rank's micro-batches.
func Rebalance(lengths []uint32, ranks, micro int, quadratic float64) [][][]int {
	b := &rebalancing{ranks: ranks, quadratic: quadratic}
	order := make([]int, len(lengths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(lengths[y], lengths[x]) })
	for _, i := range order {
		b.lengths = append(b.lengths, float64(lengths[i]))
	}
	n := ranks * micro
	for i := range n {
		b.counts = append(b.counts, len(order)/n)
		if i < len(order)%n {
			b.counts[i]++
		}
	}
	b.frozen = make([]bool, n)
	b.counts = b.search()
	groups := make([][]int, n)
	from := 0
	for i, count := range b.counts {
		groups[i] = order[from : from+count]
		from += count
	}
	shares := make([][][]int, ranks)
	for at, group := range descending(b.costs()) {
		shares[at%ranks] = append(shares[at%ranks], groups[group])
	}
	return shares
}

// rebalancing is the state of the search for the sizes of the groups.
type rebalancing struct {
	ranks     int
	quadratic float64
	lengths   []float64 // descending
	counts    []int     // sizes of the groups
	frozen    []bool
}

func (b *rebalancing) cost(count int, longest float64) float64 {
	return float64(count)*longest + b.quadratic*float64(count)*longest*longest
}

func (b *rebalancing) costs() []float64 {
	costs := make([]float64, len(b.counts))
	from := 0
	for i, count := range b.counts {
		if count > 0 {
			costs[i] = b.cost(count, b.lengths[from])
		}
		from += count
	}
	return costs
}

// descending returns numbers of groups in descending cost, equal ones in ascending order.
func descending(costs []float64) []int {
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(costs[y], costs[x]) })
	return order
}

// search moves samples from the most expensive group to the cheapest one, and returns the sizes with
// the least difference of costs.
func (b *rebalancing) search() []int {
	best, spread := slices.Clone(b.counts), -1.0
	seen := map[string]bool{}
	for range max(30*len(b.counts), len(b.lengths)) {
		key := fmt.Sprint(b.counts)
		if seen[key] {
			break
		}
		seen[key] = true
		costs := b.costs()
		greatest, least, active := -1, -1, 0
		for i, c := range costs {
			if b.frozen[i] {
				continue
			}
			active++
			if greatest < 0 || c > costs[greatest] {
				greatest = i
			}
			if least < 0 || c < costs[least] {
				least = i
			}
		}
		if active <= 1 {
			break
		}
		if d := costs[greatest] - costs[least]; spread < 0 || d < spread {
			best, spread = slices.Clone(b.counts), d
		}
		if costs[greatest] == costs[least] {
			break
		}
		if b.counts[greatest] > 1 {
			b.counts[greatest]--
			b.counts[least]++
			continue
		}
		b.freeze(costs, greatest)
	}
	return best
}

// freeze ends the search for the micro-batches of all ranks among which one is a single sample. The
// others get samples of cheaper groups, as long as they do not cost more.
func (b *rebalancing) freeze(costs []float64, single int) {
	order := descending(costs)
	from := slices.Index(order, single) / b.ranks * b.ranks
	members := slices.Sorted(slices.Values(order[from:min(from+b.ranks, len(order))]))
	for _, i := range members {
		if b.frozen[i] || i == single {
			continue
		}
		for {
			first := 0
			for _, count := range b.counts[:i] {
				first += count
			}
			donor, now := -1, b.costs()
			for d := range b.counts {
				if !b.frozen[d] && !slices.Contains(members, d) && b.counts[d] > 1 && (donor < 0 || now[d] < now[donor]) {
					donor = d
				}
			}
			if b.cost(b.counts[i]+1, b.lengths[first]) > costs[single] || donor < 0 {
				break
			}
			b.counts[i]++
			b.counts[donor]--
		}
	}
	for _, i := range members {
		b.frozen[i] = true
	}
}
