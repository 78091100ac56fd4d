package shuffle

import (
	"slices"
	"sort"
	"sync"
)

// lanes is what all epochs of a slot plan share: the samples, laid out chunk by chunk in an
// order that no epoch changes, and cut into m lanes. Where a lane meets a chunk is a piece.
type lanes struct {
	cut        []uint64  // first layout position of each lane; len is m+1
	firstPiece []uint32  // first piece of each lane; len is m+1
	offset     []uint64  // per lane: where its first piece begins within that piece's chunk
	pace       []float64 // per lane: pieces per sample, to guess where an offset lies
	pieceChunk []uint32  // piece -> chunk
	pieceAt    []uint64  // piece -> first layout position; len is pieces+1
	rows       rows

	once       sync.Once
	chunkPiece []uint32 // chunk -> its first piece, made when first asked for
}

func newLanes(params Params, chunks chunkTable) *lanes {
	order := make([]uint32, chunks.len())
	for i := range order {
		order[i] = uint32(i)
	}
	shuffleAll(newKey("chunks", params.Seed), order)
	order = slices.DeleteFunc(order, func(c uint32) bool { return chunks.size(c) == 0 })
	l := &lanes{cut: laneCuts(params.Window, uint64(len(order)), chunks[chunks.len()])}
	m := len(l.cut) - 1
	pieces := len(order) + m
	l.pieceChunk = make([]uint32, 0, pieces)
	l.pieceAt = make([]uint64, 0, pieces+1)
	l.firstPiece = make([]uint32, m+1)
	l.offset = make([]uint64, m)
	lane, at := 0, uint64(0) // the lane that begins next, the layout position reached
	for _, c := range order {
		begin, end := at, at+chunks.size(c)
		for at < end {
			for lane < m && l.cut[lane] == at {
				l.firstPiece[lane], l.offset[lane] = uint32(len(l.pieceChunk)), at-begin
				lane++
			}
			l.pieceChunk = append(l.pieceChunk, c)
			l.pieceAt = append(l.pieceAt, at)
			if at = end; lane < m {
				at = min(end, l.cut[lane])
			}
		}
	}
	for ; lane <= m; lane++ {
		l.firstPiece[lane] = uint32(len(l.pieceChunk))
	}
	l.pieceAt = append(l.pieceAt, at)
	l.rows = newRows(l.cut)
	l.pace = make([]float64, m)
	for j := range l.pace {
		l.pace[j] = float64(l.firstPiece[j+1]-l.firstPiece[j]) / float64(max(1, l.rows.length[j]))
	}
	return l
}

// laneCuts returns where m = min(window, n) lanes begin over s samples in n non-empty chunks, and s.
// Lanes are a little longer than s/m where n and m have a common factor, so that chunks of one
// size do not begin in many lanes at once.
func laneCuts(window, n, s uint64) []uint64 {
	if n == 0 {
		return []uint64{0}
	}
	m := min(window, n)
	h, q := s/n, uint64(0)
	for gcd(n+q, m) != 1 {
		q++
	}
	cut := make([]uint64, m+1)
	for j := range m {
		cut[j] = min(s, mulDiv(j, s+q*h, m))
	}
	cut[m] = s
	return cut
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// slotOrder is one epoch of the slot shuffle.
type slotOrder struct {
	*lanes
	chunks           chunkTable
	pieces           []uint32 // place -> piece
	start            []uint64 // place -> first position in the layout as this epoch orders it; len is places+1
	rowKey, pieceKey key

	placeOnce sync.Once
	places    []uint32 // piece -> place, made when first asked for
}

func newSlotOrder(p *Plan, epoch uint64) *slotOrder {
	l, seed := p.lanes, p.params.Seed
	o := &slotOrder{
		lanes:    l,
		chunks:   p.chunks,
		pieces:   make([]uint32, len(l.pieceChunk)),
		start:    make([]uint64, len(l.pieceChunk)+1),
		rowKey:   newKey("row", seed, epoch),
		pieceKey: newKey("piece", seed, epoch),
	}
	for i := range o.pieces {
		o.pieces[i] = uint32(i)
	}
	lane := newKey("lane", seed, epoch)
	for j := range l.offset {
		lo, hi := l.whole(j, p.chunks)
		shuffleAll(lane.with(uint64(j)), o.pieces[lo:hi])
	}
	var sum uint64
	for i, piece := range o.pieces {
		o.start[i] = sum
		sum += l.pieceAt[piece+1] - l.pieceAt[piece]
	}
	o.start[len(o.pieces)] = sum
	return o
}

// whole returns the places of a lane whose pieces are whole chunks: all but a first and a last one cut short.
func (l *lanes) whole(lane int, chunks chunkTable) (lo, hi uint32) {
	lo, hi = l.firstPiece[lane], l.firstPiece[lane+1]
	if lo < hi && !l.isWhole(lo, chunks) {
		lo++
	}
	if lo < hi && !l.isWhole(hi-1, chunks) {
		hi--
	}
	return lo, hi
}

func (l *lanes) isWhole(piece uint32, chunks chunkTable) bool {
	return l.pieceAt[piece+1]-l.pieceAt[piece] == chunks.size(l.pieceChunk[piece])
}

// piece is one piece in the place that an epoch gives it.
type piece struct {
	chunk  uint32
	offset uint64 // first sample of the chunk that belongs to it
	perm   perm
}

// stand makes p what stands at a place of a lane.
func (o *slotOrder) stand(p *piece, lane, place int) {
	n := o.pieces[place]
	p.chunk, p.offset = o.pieceChunk[n], 0
	if n == o.firstPiece[lane] {
		p.offset = o.offset[lane]
	}
	k := o.pieceKey.with(uint64(p.chunk)).with(p.offset)
	p.perm.reset(k, o.start[place+1]-o.start[place])
}

// find makes p the piece that holds offset k of a lane, and returns its first sample and the
// place of k in its permutation. p is scratch, kept between calls.
func (o *slotOrder) find(p *piece, lane int, k uint64) (first, i uint64) {
	place := o.placeOf(lane, k)
	o.stand(p, lane, place)
	return o.chunks[p.chunk] + p.offset, o.cut[lane] + k - o.start[place]
}

// placeOf returns the place that holds offset k of a lane. Chunks are alike, so the search
// begins where it would be if they were equal, and widens from there.
func (o *slotOrder) placeOf(lane int, k uint64) int {
	lo, hi := int(o.firstPiece[lane]), int(o.firstPiece[lane+1])
	x := o.cut[lane] + k
	guess := lo + int(float64(k)*o.pace[lane])
	return placeNear(o.start, lo, hi, guess, x)
}

func (o *slotOrder) at(t uint64) uint64 {
	k, begin := o.rows.find(t)
	p := newPerm(o.rowKey.with(k), o.rows.active(k))
	var in piece
	first, i := o.find(&in, o.rows.lane(k, p.at(t-begin)), k)
	return first + in.perm.at(i)
}

func (o *slotOrder) appendRange(dst []uint64, lo, hi uint64) []uint64 {
	var active []uint32
	var in piece
	var w walks
	k, begin := o.rows.find(lo)
	for ; lo < hi; k++ {
		n := o.rows.active(k)
		if n < uint64(len(o.rows.length)) && uint64(len(active)) != n {
			active = o.rows.appendActive(active[:0], k)
		}
		row, end, to := newPerm(o.rowKey.with(k), n), min(hi, begin+n), len(dst)
		for dst = row.appendRange(dst, lo-begin, end-begin); to < len(dst); to++ {
			lane := int(dst[to])
			if len(active) > 0 {
				lane = int(active[lane])
			}
			var i uint64
			dst[to], i = o.find(&in, lane, k)
			w.add(dst, to, &in.perm, i)
		}
		begin += n
		lo = end
	}
	w.finish(dst)
	return dst
}

func (o *slotOrder) position(sample uint64) uint64 {
	o.lanes.once.Do(o.lanes.findChunks)
	o.placeOnce.Do(func() { o.places = invert(o.pieces) })
	c := o.chunks.of(sample)
	first := int(o.chunkPiece[c])
	x := o.pieceAt[first] + sample - o.chunks[c]
	last := min(len(o.pieceChunk), first+len(o.cut)) // a chunk has at most as many pieces as there are lanes
	n := placeIn(o.pieceAt, first, last, x)
	lane := sort.Search(len(o.cut)-1, func(j int) bool { return o.cut[j+1] > x })
	place := int(o.places[n])
	var p piece
	o.stand(&p, lane, place)
	k := o.start[place] + p.perm.place(x-o.pieceAt[n]) - o.cut[lane]
	row := newPerm(o.rowKey.with(k), o.rows.active(k))
	return o.rows.before(k) + row.place(o.rows.rank(k, lane))
}

func (l *lanes) findChunks() {
	var most uint32
	for _, c := range l.pieceChunk {
		most = max(most, c)
	}
	l.chunkPiece = make([]uint32, most+1)
	for i := len(l.pieceChunk) - 1; i >= 0; i-- {
		l.chunkPiece[l.pieceChunk[i]] = uint32(i)
	}
}
