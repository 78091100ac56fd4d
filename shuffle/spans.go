package shuffle

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"sort"
)

// Span says that a chunk's samples (or some of them) are delivered between two positions. With
// importance it counts virtual samples, of which First of the epoch's Draws tells where a chunk's begin.
type Span struct {
	Chunk       uint64 // number of the chunk
	From, To    uint64 // needed at positions From (inclusive) to To (exclusive), perhaps not at each of them
	Samples     uint64 // how many of the chunk's samples are delivered in [From, To)
	FirstSample uint64 // of the piece: the first stored sample of the chunk that belongs to this span
}

// Spans yields every span that ends after position t, in the order in which readers
// need them (by From, then by chunk). It is what prefetching and eviction know of the future. For Window, spans are
// as wide as their window; for Slot, one span per piece; for None one per chunk. A Full order has no
// locality: it yields nothing and Local reports false. FirstSample counts from the chunk's first sample.
func (e *Epoch) Spans(t uint64) iter.Seq[Span] {
	switch {
	case t >= e.plan.samples || e.plan.params.Shuffle == Full:
		return func(func(Span) bool) {}
	case e.window != nil:
		return func(yield func(Span) bool) { e.window.spans(t, yield) }
	case e.slot != nil:
		return func(yield func(Span) bool) { e.slot.spans(t, yield) }
	}
	return func(yield func(Span) bool) { e.plan.chunks.spans(t, yield) }
}

// Local reports whether chunks are needed in spans that are short against the epoch.
func (e *Epoch) Local() bool { return e.plan.params.Shuffle != Full }

// Next returns the first span, as Spans orders them, of one chunk that ends after position t: when
// what lies in memory of it is needed again. It costs a binary search for each piece of the chunk, of which
// there is nearly always one. False: the chunk is not needed again in this epoch, there is no such chunk, or the order has no locality.
func (e *Epoch) Next(chunk, t uint64) (Span, bool) {
	c := e.plan.chunks
	if chunk >= uint64(c.len()) || c.size(uint32(chunk)) == 0 || !e.Local() {
		return Span{}, false
	}
	switch {
	case e.window != nil:
		s := e.window.span(uint32(chunk))
		return s, s.To > t
	case e.slot != nil:
		return e.slot.next(uint32(chunk), t)
	}
	s := c.span(uint32(chunk))
	return s, s.To > t
}

// span returns the one span of a chunk in stored order.
func (c chunkTable) span(i uint32) Span {
	return Span{Chunk: uint64(i), From: c[i], To: c[i+1], Samples: c.size(i)}
}

func (c chunkTable) spans(t uint64, yield func(Span) bool) {
	for i := c.of(t); int(i) < c.len(); i++ {
		s := c.span(i)
		if s.Samples > 0 && !yield(s) {
			return
		}
	}
}

func (w *windowOrder) spans(t uint64, yield func(Span) bool) {
	var chunks []uint32
	for i := w.holding(placeIn(w.start, 0, len(w.order), t)); i < w.windows; i++ {
		lo, hi := w.bound(i), w.bound(i+1)
		chunks = append(chunks[:0], w.order[lo:hi]...)
		slices.Sort(chunks)
		for _, c := range chunks {
			s := Span{Chunk: uint64(c), From: w.start[lo], To: w.start[hi], Samples: w.chunks.size(c)}
			if s.Samples > 0 && !yield(s) {
				return
			}
		}
	}
}

// span returns the one span of a chunk: its window.
func (w *windowOrder) span(chunk uint32) Span {
	w.once.Do(func() { w.places = invert(w.order) })
	i := w.holding(int(w.places[chunk]))
	return Span{Chunk: uint64(chunk), From: w.start[w.bound(i)], To: w.start[w.bound(i+1)], Samples: w.chunks.size(chunk)}
}

func (o *slotOrder) spans(t uint64, yield func(Span) bool) {
	k, _ := o.rows.find(t)
	next := make(laneSpans, 0, len(o.offset))
	for j, l := range o.rows.length {
		if l > k {
			next = append(next, o.laneSpan(j, o.placeOf(j, k)))
		}
	}
	heap.Init(&next)
	for len(next) > 0 {
		first := next[0]
		if !yield(first.Span) {
			return
		}
		if place := first.place + 1; place < int(o.firstPiece[first.lane+1]) {
			next[0] = o.laneSpan(first.lane, place)
			heap.Fix(&next, 0)
		} else {
			heap.Pop(&next)
		}
	}
}

// next looks at every piece of a chunk that is not empty.
func (o *slotOrder) next(chunk uint32, t uint64) (first Span, found bool) {
	o.lanes.once.Do(o.lanes.findChunks)
	o.placeOnce.Do(func() { o.places = invert(o.pieces) })
	n := int(o.chunkPiece[chunk])
	lane := sort.Search(len(o.firstPiece)-1, func(j int) bool { return int(o.firstPiece[j+1]) > n })
	for ; n < len(o.pieceChunk) && o.pieceChunk[n] == chunk; n++ {
		for n >= int(o.firstPiece[lane+1]) {
			lane++
		}
		s := o.laneSpan(lane, int(o.places[n])).Span
		if s.To > t && (!found || s.From < first.From) {
			first, found = s, true
		}
	}
	return first, found
}

func (o *slotOrder) laneSpan(lane, place int) laneSpan {
	var p piece
	o.stand(&p, lane, place)
	row := o.start[place] - o.cut[lane]
	return laneSpan{lane: lane, place: place, Span: Span{
		Chunk:       uint64(p.chunk),
		From:        o.rows.before(row),
		To:          o.rows.before(row + p.perm.n),
		Samples:     p.perm.n,
		FirstSample: p.offset,
	}}
}

// laneSpan is the next span of one lane.
type laneSpan struct {
	Span
	lane, place int
}

// laneSpans is a heap of them, the one needed first on top.
type laneSpans []laneSpan

func (s laneSpans) Len() int { return len(s) }
func (s laneSpans) Less(i, j int) bool {
	a, b := &s[i], &s[j]
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.FirstSample, b.FirstSample)) < 0
}
func (s laneSpans) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push and Pop complete heap.Interface.
func (s *laneSpans) Push(x any) { *s = append(*s, x.(laneSpan)) }

// Pop removes the last element.
func (s *laneSpans) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
