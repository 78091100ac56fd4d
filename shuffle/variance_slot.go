package shuffle

// Limits on the work of variance for a slot order. Lanes are alike, so some lanes represent all.
const (
	lookPieces = 1 << 16 // pieces in all examined lanes
	lookPairs  = 1 << 18 // number of pieces times number of distances
	lookStarts = 64      // batches whose places in a row are examined
	lookRows   = 1 << 16 // rows of a batch; a longer batch counts as one of this length
)

// variance returns the variance of a class's share of a batch, over all seeds. Over all seeds the
// lanes of a row are in random order, each sample of a lane is equally likely, and lanes are
// independent. Two rows' samples of one lane are not independent: they come from one piece if the
// distance of the rows is less than the length of the piece.
//
// So apart is the probability that two samples of different lanes belong to one class, which the
// lanes' shares determine. along is the same probability for two samples of one lane, which depends
// on the distance of their rows.
func (l *lanes) variance(s *sorting, chunks chunkTable, batchSize uint64) float64 {
	width := uint64(len(l.offset))
	batch := min(batchSize, lookRows*width)
	same, far := rowPairs(batch, rowStarts(batchSize, l.cut[width]/batchSize, width), width)
	m, b := float64(width), float64(batch)
	alike, along := l.alike(s, chunks, far)
	apart := m*s.alike - alike // (m-1) times the probability that samples of two different lanes belong to one class
	sum := b - b*b*s.alike
	if m > 1 {
		sum += same * apart / (m - 1)
	}
	for i, d := range far {
		sum += 2 * d.pairs / m * (along[i] + apart)
	}
	return max(0, sum/(b*(1-s.alike)))
}

// rowDistance is a distance between rows of a batch, and the number of pairs of samples at that
// distance.
type rowDistance struct {
	rows, pairs float64
}

// rowPairs returns the number of ordered pairs of a batch's samples in one row of m lanes, and the
// number of unordered pairs for each distance of rows. Both are averages over the places in a row
// at which batches begin. Large distances are grouped; each group is represented by its mean.
func rowPairs(batch uint64, starts []uint64, m uint64) (same float64, far []rowDistance) {
	pairs := make([]float64, batch/m+2)
	for _, start := range starts {
		first := min(batch, m-start)
		full, last := (batch-first)/m, (batch-first)%m
		x, y, z := float64(first), float64(m), float64(last)
		same += x*x + float64(full)*y*y + z*z - float64(batch)
		for d := uint64(1); d <= full; d++ {
			pairs[d] += float64(full-d)*y*y + (x+z)*y
		}
		pairs[full+1] += x * z
	}
	n := float64(len(starts))
	for d := 1; d < len(pairs); {
		var group, times float64
		for end := min(len(pairs), d+1+d/16); d < end; d++ {
			group += pairs[d]
			times += float64(d) * pairs[d]
		}
		if group > 0 {
			far = append(far, rowDistance{rows: times / group, pairs: group / n})
		}
	}
	return same / n, far
}

// rowStarts returns the places in a row of m lanes at which the first batches begin. Batches that
// begin at other places are rare or similar.
func rowStarts(batchSize, batches, m uint64) (starts []uint64) {
	for i := range min(batches, lookStarts) {
		starts = append(starts, i*batchSize%m)
	}
	return starts
}

// alike returns the probability that two samples drawn independently from one lane belong to one
// class, and the same for samples from rows at each distance. The latter costs more, so it uses
// fewer lanes, and only a part of the pieces of a very long lane.
func (l *lanes) alike(s *sorting, chunks chunkTable, far []rowDistance) (drawn float64, along []float64) {
	along = make([]float64, len(far))
	step := 1 + len(l.pieceChunk)/lookPieces
	most := 1 + lookPairs/(1+len(far))                   // maximum number of pieces along lanes
	rarely := step * (1 + len(l.pieceChunk)/(step*most)) // use only one lane in this many
	each := func(step int) float64 { return float64((len(l.offset) + step - 1) / step) }
	var pieces []lanePiece
	for lane := 0; lane < len(l.offset); lane += step {
		size := float64(l.length(lane))
		pieces = l.appendPieces(pieces[:0], s, chunks, lane)
		for _, p := range pieces {
			s.add(p.class, p.n)
		}
		s.take(func(_ int, n float64) { drawn += n / size * n / size / each(step) })
		if lane%rarely > 0 {
			continue
		}
		some := pieces[:0]
		for i := 0; i < len(pieces); i += 1 + len(pieces)/most {
			some = append(some, pieces[i])
		}
		for i, d := range far {
			along[i] += alikeAlong(s, some, size, d.rows) / each(rarely)
		}
	}
	return drawn, along
}

// lanePiece has the samples of one class in one piece of a lane. A piece of several classes has one
// lanePiece per class.
type lanePiece struct {
	class  int
	n      float64
	length float64 // length of the piece, with all its classes
}

// appendPieces appends the lane pieces of a lane to dst.
func (l *lanes) appendPieces(dst []lanePiece, s *sorting, chunks chunkTable, lane int) []lanePiece {
	for i := l.firstPiece[lane]; i < l.firstPiece[lane+1]; i++ {
		lo, length := chunks[l.pieceChunk[i]], l.pieceAt[i+1]-l.pieceAt[i]
		if i == l.firstPiece[lane] {
			lo += l.offset[lane]
		}
		s.each(lo, lo+length, func(class int, n float64) {
			dst = append(dst, lanePiece{class: class, n: n, length: float64(length)})
		})
	}
	return dst
}

// alikeAlong returns the probability that two samples of a lane, in rows at the given distance,
// belong to one class. size is the number of samples of the lane. The lane is a ring of pieces in
// random order. A pair of its places is either within one piece or in two.
func alikeAlong(s *sorting, pieces []lanePiece, size, rows float64) float64 {
	var all, within, between, leave, squares float64
	for _, p := range pieces {
		all += p.n
		stay := min(p.length, max(0, p.length-rows)+max(0, p.length-size+rows))
		if p.length > 1 {
			within += stay * p.n / p.length * (p.n - 1) / (p.length - 1)
		}
		out := (p.length - stay) * p.n / p.length
		s.add(p.class, out)
		between -= out * out
		leave += out
		squares += out * (p.length - stay)
	}
	s.take(func(_ int, n float64) { between += n * n })
	if ordered := leave*leave - squares; ordered > 1e-9*leave*leave { // otherwise there is only one piece
		within += between * leave / ordered
	}
	return within / all
}
