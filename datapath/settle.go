package datapath

// settle gives back the memory that the body can do without before it is sent: of its own bytes those
// behind the segments, and the leased chunks of which nothing is needed any more. It copies what is
// needed of the others, chunk by chunk: each copy makes room for the next one. Where there is no
// memory for a copy the chunk stays.
func (g *gathering) settle() {
	if g.own != nil && g.own.sole() {
		g.own.room.shrink(g.own.used)
	}
	for at, i := range g.leased {
		var needed []int // segments
		for _, r := range g.near.chunks[i].Ranges {
			if g.segments[r.Seq] != nil {
				needed = append(needed, r.Seq)
			}
		}
		if g.leases.Holds(at) && g.copy(at, needed) {
			g.leases.Drop(at)
		}
	}
}

// copy copies segments of a chunk. It reports whether the chunk is needed no more.
func (g *gathering) copy(at int, seqs []int) bool {
	var n int64
	for _, seq := range seqs {
		n += int64(len(g.segments[seq]))
	}
	if n == 0 {
		return true
	}
	own, ok := g.leases.Instead(at, n)
	if !ok {
		return false
	}
	g.kept = append(g.kept, own)
	to := own.Bytes()
	for _, seq := range seqs {
		k := copy(to, g.segments[seq])
		g.segments[seq], to = to[:k:k], to[k:]
	}
	return true
}
