package shuffle

// Bounds of what variance looks at of a slot order. Lanes are alike, so those looked at stand for all.
const (
	lookPieces = 1 << 16 // pieces of all lanes looked at
	lookPairs  = 1 << 18 // pieces x distances
	lookStarts = 64      // places in a row at which batches begin
	lookRows   = 1 << 16 // rows of a batch; a longer batch counts as one of so many
)

// variance returns the variance of a class's share of a batch, over all seeds. Over them, the lanes of a row are a random arrangement,
// the sample that a lane gives is any of its samples alike, and lanes are independent. What two rows take from one lane is not: it comes
// from one piece while the rows lie closer together than the piece is long.
//
// So of two samples of a batch, those of different lanes are of one class as often as the lanes' shares say (apart), those of one
// lane as often as the distance of their rows says (along).
func (l *lanes) variance(s *sorting, chunks chunkTable, batchSize uint64) float64 {
	width := uint64(len(l.offset))
	batch := min(batchSize, lookRows*width)
	same, far := rowPairs(batch, rowStarts(batchSize, l.cut[width]/batchSize, width), width)
	m, b := float64(width), float64(batch)
	alike, along := l.alike(s, chunks, far)
	apart := m*s.alike - alike // (m-1) times the probability that samples of two different lanes are of one class
	sum := b - b*b*s.alike
	if m > 1 {
		sum += same * apart / (m - 1)
	}
	for i, d := range far {
		sum += 2 * d.pairs / m * (along[i] + apart)
	}
	return max(0, sum/(b*(1-s.alike)))
}

// rowDistance is a distance between rows of a batch, and how many pairs of its samples are so far apart.
type rowDistance struct {
	rows, pairs float64
}

// rowPairs returns how many ordered pairs of a batch's samples are of one row of m, and how many unordered ones are so many rows
// apart, on average over the places in a row at which batches begin. Far distances come in groups, of which each stands for its mean.
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

// rowStarts returns the places in a row of m at which batches begin: those of all batches if they are few, else some of the cycle
// in which they come.
func rowStarts(batchSize, batches, m uint64) []uint64 {
	step, rest := m, batchSize%m
	for rest > 0 {
		step, rest = rest, step%rest
	}
	var starts []uint64
	if batches <= lookStarts {
		for i := range batches {
			starts = append(starts, mulDiv(i, batchSize, 1)%m)
		}
		return starts
	}
	cycle := m / step
	looks := min(cycle, lookStarts)
	for i := range looks {
		starts = append(starts, step*mulDiv(i, cycle, looks))
	}
	return starts
}

// alike returns the probability that two samples drawn independently from one lane are of one class, and that two that the lane
// gives to rows of each distance are. The latter costs more, so it looks at fewer lanes, and of a very long lane at a part of its pieces.
func (l *lanes) alike(s *sorting, chunks chunkTable, far []rowDistance) (drawn float64, along []float64) {
	along = make([]float64, len(far))
	step := 1 + len(l.pieceChunk)/lookPieces
	most := 1 + lookPairs/(1+len(far))                   // pieces to look at along lanes
	rarely := step * (1 + len(l.pieceChunk)/(step*most)) // every so many-th lane
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

// lanePiece is what one piece of a lane holds of one class. A piece of several classes is several of them.
type lanePiece struct {
	class  int
	n      float64
	length float64 // of the piece, all its classes
}

// appendPieces appends what the pieces of a lane hold.
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

// alikeAlong returns the probability that the two samples that a lane of so many samples gives to rows so far apart are of one class.
// The lane is a ring of pieces in random order; a pair of its places either stays within a piece or joins two.
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
	if ordered := leave*leave - squares; ordered > 1e-9*leave*leave { // else all is one piece
		within += between * leave / ordered
	}
	return within / all
}
