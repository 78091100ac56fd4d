package shuffle

// rows computes which lanes a row takes a sample from. Every row takes one from each lane, except
// the last row: it takes the last samples of the lanes that are one sample longer than the others.
// Lane j is one of these if (j+1)*longer div width exceeds j*longer div width, so no table of them
// is needed.
type rows struct {
	width  uint64 // lanes, m
	whole  uint64 // rows that take from every lane: S div m
	longer uint64 // lanes that are one sample longer: S mod m
}

// lanesIn returns how many lanes row k takes a sample from.
func (r *rows) lanesIn(k uint64) uint64 {
	if k < r.whole {
		return r.width
	}
	return r.longer
}

// before returns the number of samples in the rows before k.
func (r *rows) before(k uint64) uint64 {
	if k <= r.whole {
		return k * r.width
	}
	return r.whole*r.width + r.longer
}

// lane returns the lane with the given rank among those that row k takes a sample from, ascending.
func (r *rows) lane(k, rank uint64) int {
	if k < r.whole {
		return int(rank)
	}
	return int(ceilDiv((rank+1)*r.width, r.longer)) - 1
}

// rank returns the rank of a lane among those that row k takes a sample from.
func (r *rows) rank(k uint64, lane int) uint64 {
	if k < r.whole {
		return uint64(lane)
	}
	return uint64(lane) * r.longer / r.width
}
