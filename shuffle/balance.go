package shuffle

import (
	"math"
	"slices"
)

// maxExchanges limits the exchanges of one division.
const maxExchanges = 1024

// Division is the division of the samples of a batch among ranks, or of the samples of a share
// among micro-batches.
type Division struct {
	// Places are the places of the samples, rank after rank, and ascending in each rank.
	Places []uint32

	// Starts has the index in Places of the first sample of each rank, and the number of
	// samples. It omits ranks without samples at the end.
	Starts []uint32
}

// Divide divides the samples of a batch among ranks so that the sums of their costs are about equal.
// costs are in the order of the batch; 0 counts as 1. Each sample, in descending cost, goes to the
// rank with the least sum (longest processing time first; R. L. Graham, SIAM J. Appl. Math. 17,
// 1969). Then the ranks with the greatest and the least sum exchange samples
// (docs/spec/order.md, section 10).
func Divide(costs []uint32, ranks uint64) Division {
	piles := make([]pile, min(ranks, uint64(len(costs))))
	heap := make([]*pile, len(piles))
	for i := range piles {
		piles[i].rank, heap[i] = i, &piles[i]
	}
	for _, w := range descending(costs) {
		heap[0].sum += w.cost()
		heap[0].samples = append(heap[0].samples, w)
		sink(heap)
	}
	for range min(len(piles), maxExchanges) {
		if !exchange(piles) {
			break
		}
	}
	d := Division{Places: make([]uint32, 0, len(costs)), Starts: make([]uint32, 1, len(piles)+1)}
	for _, p := range piles {
		from := len(d.Places)
		for _, w := range p.samples {
			d.Places = append(d.Places, w.place())
		}
		slices.Sort(d.Places[from:])
		d.Starts = append(d.Starts, uint32(len(d.Places)))
	}
	return d
}

// Share returns the places of the samples of a rank.
func (d Division) Share(rank uint64) []uint32 {
	if rank+1 >= uint64(len(d.Starts)) {
		return nil
	}
	return d.Places[d.Starts[rank]:d.Starts[rank+1]]
}

// RankOf returns the rank that gets the sample at a place of the batch.
func (d Division) RankOf(place uint32) uint64 {
	at := uint32(slices.Index(d.Places, place))
	rank, _ := slices.BinarySearch(d.Starts, at+1)
	return uint64(rank) - 1
}

// weighed is the cost of a sample and its place: the complement of the cost in the high half, so
// that the order of numbers is that of descending costs and ascending places.
type weighed uint64

func (w weighed) cost() int64   { return int64(^uint32(w >> 32)) }
func (w weighed) place() uint32 { return uint32(w) }

func descending(costs []uint32) []weighed {
	all := make([]weighed, len(costs))
	for i, c := range costs {
		all[i] = weighed(uint64(^max(c, 1))<<32 | uint64(uint32(i)))
	}
	slices.Sort(all)
	return all
}

// pile is the samples of a rank.
type pile struct {
	rank    int
	sum     int64 // of the costs
	samples []weighed
}

func (p *pile) put(w weighed) {
	p.sum += w.cost()
	at, _ := slices.BinarySearch(p.samples, w)
	p.samples = slices.Insert(p.samples, at, w)
}

func (p *pile) take(w weighed) {
	p.sum -= w.cost()
	at, _ := slices.BinarySearch(p.samples, w)
	p.samples = slices.Delete(p.samples, at, at+1)
}

// before reports whether a rank gets the next sample before another one.
func (p *pile) before(q *pile) bool {
	switch {
	case p.sum != q.sum:
		return p.sum < q.sum
	case len(p.samples) != len(q.samples):
		return len(p.samples) < len(q.samples)
	}
	return p.rank < q.rank
}

// sink restores the order of a heap whose first element has grown.
func sink(heap []*pile) {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child < min(2*i+3, len(heap)); child++ {
			if heap[child].before(heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// exchange exchanges one sample of the rank with the greatest sum and one of the rank with the least
// sum, so that these sums become as equal as possible. It reports whether such a pair exists.
func exchange(piles []pile) bool {
	greatest, least := &piles[0], &piles[0]
	for i := range piles {
		if piles[i].sum > greatest.sum {
			greatest = &piles[i]
		}
		if piles[i].sum < least.sum {
			least = &piles[i]
		}
	}
	x, y, ok := bestPair(greatest.samples, least.samples, greatest.sum-least.sum)
	if ok {
		greatest.take(x)
		least.take(y)
		greatest.put(y)
		least.put(x)
	}
	return ok
}

// bestPair returns a sample of each list whose costs differ by more than 0, by less than d, and by d/2
// as nearly as possible; of several pairs, the one with the lowest places. As the lists descend, so
// does the cost in b that fits a cost in a: both lists are read once.
func bestPair(a, b []weighed, d int64) (x, y weighed, ok bool) {
	best := int64(math.MaxInt64)
	above, at := 0, 0 // in b: the first with the least cost that differs by at most d/2, and the first that differs by more
	for _, w := range a {
		for ; at < len(b) && 2*(w.cost()-b[at].cost()) <= d; at++ {
			if b[at].cost() != b[above].cost() {
				above = at
			}
		}
		for _, i := range []int{above, at} {
			if i == len(b) {
				continue
			}
			differ := w.cost() - b[i].cost()
			gap := max(2*differ-d, d-2*differ)
			closer := gap < best || gap == best && (w.place() < x.place() || w == x && b[i].place() < y.place())
			if 0 < differ && differ < d && closer {
				best, x, y, ok = gap, w, b[i], true
			}
		}
	}
	return x, y, ok
}
