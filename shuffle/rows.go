package shuffle

// rows computes the lanes from which a row takes a sample. Every row takes one sample from each
// lane, except the last row: it takes the last samples of the lanes that are one sample longer than
// the others. Lane j is longer if (j+1)*longer div width exceeds j*longer div width, so no table of
// longer lanes is needed.
type rows struct {
	width  uint64 // lanes, m
	whole  uint64 // rows that take from every lane: S div m
	longer uint64 // lanes that are one sample longer: S mod m
}

// lanesIn returns the number of lanes from which row k takes a sample.
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

// lane returns the lane with the given rank, ascending, among the lanes from which row k takes a
// sample.
func (r *rows) lane(k, rank uint64) int {
	if k < r.whole {
		return int(rank)
	}
	return int(ceilDiv((rank+1)*r.width, r.longer)) - 1
}

// rank returns the rank of a lane among the lanes from which row k takes a sample.
func (r *rows) rank(k uint64, lane int) uint64 {
	if k < r.whole {
		return uint64(lane)
	}
	return uint64(lane) * r.longer / r.width
}
