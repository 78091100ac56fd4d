package shuffle

import "sync"

// MaxLanes limits the window of a slot order, which is its number of lanes. Plans and epochs store
// several numbers per lane. A row of more lanes than a batch has samples mixes no better.
const MaxLanes = 1 << 20

// lanes is the layout that all epochs of a slot plan share, and all plans with the same chunks and
// window. The samples are laid out chunk by chunk in an order independent of seed and epoch, and
// cut into m lanes. A piece is the intersection of a lane and a chunk.
type lanes struct {
	rows
	cut        []uint64  // first layout position of each lane; len is m+1
	firstPiece []uint32  // first piece of each lane; len is m+1
	offset     []uint64  // per lane: offset of its first piece within that piece's chunk
	pace       []float64 // per lane: pieces per sample, to guess the place of an offset
	pieceChunk []uint32  // piece -> chunk
	pieceAt    []uint64  // piece -> first layout position; len is pieces+1
	holdsAll   bool      // there are at least as many lanes as non-empty chunks

	once       sync.Once
	chunkPiece []uint32 // chunk -> its first piece, computed at the first use
}

func newLanes(params Params, chunks chunkTable) *lanes {
	samples := chunks[chunks.len()]
	m := min(params.Window, samples)
	l := &lanes{rows: rows{width: m}, cut: make([]uint64, m+1), firstPiece: make([]uint32, m+1), offset: make([]uint64, m), pace: make([]float64, m)}
	if m > 0 {
		l.whole, l.longer = samples/m, samples%m
	}
	for j := range l.cut {
		l.cut[j] = l.whole*uint64(j) + l.longer*uint64(j)/max(1, m) // j*S div m
	}
	l.cutPieces(chunks)
	for j := range l.pace {
		l.pace[j] = float64(l.firstPiece[j+1]-l.firstPiece[j]) / float64(l.length(j))
	}
	return l
}

// cutPieces computes the pieces: the intersections of the lanes and the non-empty chunks, in the
// order of the layout, which is the same for all epochs and seeds.
func (l *lanes) cutPieces(chunks chunkTable) {
	n, m := chunks.len(), int(l.width)
	l.pieceChunk = make([]uint32, 0, n+m)
	l.pieceAt = make([]uint64, 0, n+m+1)
	var sizes [exact]uint64           // looked up in advance, so that the processor waits for many sizes at a time
	full, lane, at := 0, 0, uint64(0) // non-empty chunks, the next lane, the current layout position
	order := newPerm(newKey("chunks"), uint64(n))
	for some := range order.blocks {
		for i, c := range some {
			sizes[i] = chunks.size(uint32(c))
		}
		for i, c := range some {
			begin, end := at, at+sizes[i]
			if begin < end {
				full++
			}
			for at < end {
				if lane < m && l.cut[lane] == at {
					l.firstPiece[lane], l.offset[lane] = uint32(len(l.pieceChunk)), at-begin
					lane++
				}
				l.pieceChunk = append(l.pieceChunk, uint32(c))
				l.pieceAt = append(l.pieceAt, at)
				at = min(end, l.cut[lane])
			}
		}
	}
	l.firstPiece[m] = uint32(len(l.pieceChunk))
	l.pieceAt = append(l.pieceAt, at)
	l.holdsAll = full <= m
}

// length returns the number of samples of a lane.
func (l *lanes) length(lane int) uint64 { return l.cut[lane+1] - l.cut[lane] }

// of returns the lane of a layout position: the last j for which j*S div m is at most the position.
func (l *lanes) of(x uint64) int {
	return int(holding(x, l.width, l.cut[l.width]))
}

// slotOrder is the order of one epoch of the slot shuffle.
type slotOrder struct {
	*lanes
	chunks           chunkTable
	pieces           []uint32 // place -> piece
	start            []uint64 // place -> first position in this epoch's order of the layout; len is places+1
	turn             []uint64 // lane -> the offset at which the epoch begins to read the lane
	rowKey, pieceKey key

	placeOnce sync.Once
	places    []uint32 // piece -> place, computed at the first use
}

func newSlotOrder(p *Plan, epoch uint64) *slotOrder {
	l, seed := p.lanes, p.params.Seed
	o := &slotOrder{
		lanes:    l,
		chunks:   p.chunks,
		pieces:   make([]uint32, 0, len(l.pieceChunk)),
		start:    make([]uint64, len(l.pieceChunk)+1),
		turn:     make([]uint64, len(l.offset)),
		rowKey:   newKey("row", seed, epoch),
		pieceKey: newKey("piece", seed, epoch),
	}
	lane, turn := newKey("lane", seed, epoch), newKey("turn", seed, epoch)
	var order perm
	for j := range o.turn {
		first := l.firstPiece[j]
		order.reset(lane.with(uint64(j)), uint64(l.firstPiece[j+1]-first))
		for i := range order.all {
			o.pieces = append(o.pieces, first+uint32(i))
		}
		o.turn[j] = turn.with(uint64(j)).draw(0, l.length(j))
	}
	var sum uint64
	for i, piece := range o.pieces {
		o.start[i] = sum
		sum += l.pieceAt[piece+1] - l.pieceAt[piece]
	}
	o.start[len(o.pieces)] = sum
	return o
}

// piece is one piece with its permutation in an epoch.
type piece struct {
	chunk  uint32
	offset uint64 // its first sample in the chunk
	perm   perm
}

// setPiece sets p to the piece at a place of a lane.
func (o *slotOrder) setPiece(p *piece, lane, place int) {
	n := o.pieces[place]
	p.chunk, p.offset = o.pieceChunk[n], 0
	if n == o.firstPiece[lane] {
		p.offset = o.offset[lane]
	}
	k := o.pieceKey.with(uint64(p.chunk)).with(p.offset)
	p.perm.reset(k, o.start[place+1]-o.start[place])
}

// read returns the position, in this epoch's order of the layout, from which row k takes a sample
// of a lane, and the place that contains it. Chunks are of similar size, so the search begins at
// the place for equal chunks, and widens from there.
func (o *slotOrder) read(lane int, k uint64) (x uint64, place int) {
	k += o.turn[lane]
	if l := o.length(lane); k >= l {
		k -= l
	}
	lo, hi := int(o.firstPiece[lane]), int(o.firstPiece[lane+1])
	guess := lo + int(float64(k)*o.pace[lane])
	x = o.cut[lane] + k
	return x, placeNear(o.start, lo, hi, guess, x)
}

// find sets p to the piece from which row k takes a sample of a lane. It returns the piece's first
// sample and the place of the row's sample in the piece's permutation. p is reused between calls.
func (o *slotOrder) find(p *piece, lane int, k uint64) (first, i uint64) {
	x, place := o.read(lane, k)
	o.setPiece(p, lane, place)
	return o.chunks[p.chunk] + p.offset, x - o.start[place]
}

func (o *slotOrder) at(t uint64) uint64 {
	k := t / o.width
	p := newPerm(o.rowKey.with(k), o.lanesIn(k))
	var in piece
	first, i := o.find(&in, o.lane(k, p.at(t-o.before(k))), k)
	return first + in.perm.at(i)
}

func (o *slotOrder) appendRange(dst []uint64, lo, hi uint64) []uint64 {
	var in piece
	var w walks
	for lo < hi {
		var k uint64
		to := len(dst)
		dst, k, lo = o.appendRow(dst, lo, hi)
		for ; to < len(dst); to++ {
			var i uint64
			dst[to], i = o.find(&in, int(dst[to]), k)
			w.add(dst, to, &in.perm, i)
		}
	}
	w.finish(dst)
	return dst
}

// appendRow appends the lanes from which the positions from lo on take a sample, up to hi or to the
// end of lo's row k.
func (o *slotOrder) appendRow(dst []uint64, lo, hi uint64) (_ []uint64, k, end uint64) {
	k = lo / o.width
	begin, n, from := o.before(k), o.lanesIn(k), len(dst)
	row := newPerm(o.rowKey.with(k), n)
	end = min(hi, begin+n)
	dst = row.appendRange(dst, lo-begin, end-begin)
	for i := from; i < len(dst) && k == o.whole; i++ {
		dst[i] = uint64(o.lane(k, dst[i]))
	}
	return dst, k, end
}

func (o *slotOrder) position(sample uint64) uint64 {
	o.lanes.once.Do(o.lanes.findChunks)
	o.placeOnce.Do(func() { o.places = invert(o.pieces) })
	c := o.chunks.of(sample)
	first := int(o.chunkPiece[c])
	x := o.pieceAt[first] + sample - o.chunks[c]
	last := min(len(o.pieceChunk), first+len(o.cut)) // a chunk has at most as many pieces as there are lanes
	n := placeIn(o.pieceAt, first, last, x)
	lane := o.lanes.of(x)
	place := int(o.places[n])
	var p piece
	o.setPiece(&p, lane, place)
	k := o.start[place] + p.perm.place(x-o.pieceAt[n]) - o.cut[lane]
	if k < o.turn[lane] {
		k += o.length(lane)
	}
	k -= o.turn[lane]
	row := newPerm(o.rowKey.with(k), o.lanesIn(k))
	return o.before(k) + row.place(o.rank(k, lane))
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
