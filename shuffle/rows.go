package shuffle

import (
	"slices"
	"sort"
)

// rows answers which lanes a row takes a sample from, and where rows begin: row k takes one
// from every lane longer than k.
type rows struct {
	length []uint64 // of each lane
	sorted []uint64 // the same, ascending
	sum    []uint64 // of the i shortest lanes; len is m+1
}

func newRows(cut []uint64) rows {
	m := len(cut) - 1
	r := rows{length: make([]uint64, m), sum: make([]uint64, m+1)}
	for j := range r.length {
		r.length[j] = cut[j+1] - cut[j]
	}
	r.sorted = slices.Sorted(slices.Values(r.length))
	for i, l := range r.sorted {
		r.sum[i+1] = r.sum[i] + l
	}
	return r
}

// ended returns how many lanes are no longer than k.
func (r *rows) ended(k uint64) int {
	if len(r.sorted) > 0 && r.sorted[0] > k {
		return 0
	}
	return sort.Search(len(r.sorted), func(i int) bool { return r.sorted[i] > k })
}

// active returns |A(k)|, the number of lanes longer than k.
func (r *rows) active(k uint64) uint64 { return uint64(len(r.sorted) - r.ended(k)) }

// before returns R(k), the number of samples in the rows before k.
func (r *rows) before(k uint64) uint64 {
	i := r.ended(k)
	return r.sum[i] + uint64(len(r.sorted)-i)*k
}

// find returns the row of position t, and the position at which that row begins.
func (r *rows) find(t uint64) (k, begin uint64) {
	// The rows after the i shortest lanes end and before the next one does all take m-i samples.
	m := len(r.sorted)
	i := sort.Search(m-1, func(i int) bool { return r.sum[i]+uint64(m-i)*r.sorted[i] > t })
	n := uint64(m - i)
	k = (t - r.sum[i]) / n
	return k, r.sum[i] + n*k
}

// lane returns lane number rank of those longer than k.
func (r *rows) lane(k, rank uint64) int {
	if r.sorted[0] > k {
		return int(rank)
	}
	for j, l := range r.length {
		if l > k {
			if rank == 0 {
				return j
			}
			rank--
		}
	}
	panic("shuffle: a row has fewer lanes than it counted")
}

// rank returns how many of the lanes longer than k come before one of them.
func (r *rows) rank(k uint64, lane int) uint64 {
	if r.sorted[0] > k {
		return uint64(lane)
	}
	var n uint64
	for _, l := range r.length[:lane] {
		if l > k {
			n++
		}
	}
	return n
}

// appendActive appends A(k), the lanes longer than k, ascending.
func (r *rows) appendActive(dst []uint32, k uint64) []uint32 {
	for j, l := range r.length {
		if l > k {
			dst = append(dst, uint32(j))
		}
	}
	return dst
}
