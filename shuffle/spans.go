package shuffle

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
)

// Span is a range of positions in which samples of a chunk are delivered. With importance or a
// subset it counts virtual samples.
type Span struct {
	Chunk    uint64 // number of the chunk
	From, To uint64 // needed from position From (inclusive) to To (exclusive), not necessarily at each of them
	Samples  uint64 // number of the chunk's samples that this span delivers in [From, To)
}

// Spans yields every span that ends after position t, in the order in which readers need them (by
// From, then by chunk, then by To). Prefetching and eviction use the spans to predict accesses. For
// Window a span is as wide as its window; for None each chunk has one span. For Slot each piece has
// one span. A piece that its lane's turn cuts has two: one at the beginning of the epoch, one at
// its end. If the window of Slot holds all chunks, every chunk has one span, the whole epoch. A
// Full order has no locality: Spans yields nothing and Local returns false.
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

// Local reports whether chunks are needed in spans that are short compared with the epoch.
func (e *Epoch) Local() bool { return e.plan.params.Shuffle != Full }

// Next returns the first span of one chunk, in the order of Spans, that ends after position t: the
// next use of the chunk if it is in memory. It costs a binary search for each piece of the chunk,
// which nearly always has one or two. ok is false if the chunk does not exist or is not needed
// again in this epoch, or if the order has no locality.
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

// span returns the only span of a chunk in stored order.
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

// span returns the only span of a chunk, which is its window.
func (w *windowOrder) span(chunk uint32) Span {
	w.once.Do(func() { w.places = invert(w.order) })
	i := w.holding(int(w.places[chunk]))
	return Span{Chunk: uint64(chunk), From: w.start[w.bound(i)], To: w.start[w.bound(i+1)], Samples: w.chunks.size(chunk)}
}

func (o *slotOrder) spans(t uint64, yield func(Span) bool) {
	if o.holdsAll {
		for c := range uint32(o.chunks.len()) {
			if s := o.throughout(c); s.Samples > 0 && !yield(s) {
				return
			}
		}
		return
	}
	k := t / o.width
	next := make(laneSpans, 0, o.lanesIn(k))
	for j := range len(o.turn) {
		if k < o.length(j) {
			next = append(next, o.laneSpan(j, k))
		}
	}
	heap.Init(&next)
	for len(next) > 0 {
		first := next[0]
		if !yield(first.Span) {
			return
		}
		if first.end < o.length(first.lane) {
			next[0] = o.laneSpan(first.lane, first.end)
			heap.Fix(&next, 0)
		} else {
			heap.Pop(&next)
		}
	}
}

// throughout returns the only span of a chunk if the window holds all chunks: the whole epoch.
func (o *slotOrder) throughout(chunk uint32) Span {
	return Span{Chunk: uint64(chunk), From: 0, To: o.cut[o.width], Samples: o.chunks.size(chunk)}
}

// next searches the spans of all pieces of a non-empty chunk.
func (o *slotOrder) next(chunk uint32, t uint64) (first Span, found bool) {
	if o.holdsAll {
		s := o.throughout(chunk)
		return s, s.To > t
	}
	o.lanes.once.Do(o.lanes.findChunks)
	o.placeOnce.Do(func() { o.places = invert(o.pieces) })
	n := int(o.chunkPiece[chunk])
	for lane := o.of(o.pieceAt[n]); n < len(o.pieceChunk) && o.pieceChunk[n] == chunk; lane, n = lane+1, n+1 {
		s := o.pieceSpan(lane, int(o.places[n]), t)
		if s.To > t && (!found || compareSpans(s, first) < 0) {
			first, found = s, true
		}
	}
	return first, found
}

// pieceSpan returns the span of the piece at a place of a lane. A piece that the turn cuts has two
// spans: pieceSpan returns the first of them that ends after position t.
func (o *slotOrder) pieceSpan(lane, place int, t uint64) Span {
	row := o.start[place] - o.cut[lane] // the row of the piece's first offset, before the turn is applied
	if row < o.turn[lane] {
		row += o.length(lane)
	}
	row -= o.turn[lane]
	if end := row + o.start[place+1] - o.start[place]; end > o.length(lane) {
		if s := o.laneSpan(lane, 0).Span; s.To > t {
			return s
		}
	}
	return o.laneSpan(lane, row).Span
}

// laneSpan returns the span of a lane that contains row k. If the turn cuts a piece, the lane
// begins and ends with that piece, in two spans. A lane with a single piece has a single span.
func (o *slotOrder) laneSpan(lane int, k uint64) laneSpan {
	x, place := o.read(lane, k)
	from, end := uint64(0), o.length(lane)
	if o.firstPiece[lane+1]-o.firstPiece[lane] > 1 {
		from = k - min(k, x-o.start[place])
		end = min(end, k+o.start[place+1]-x)
	}
	return laneSpan{lane: lane, end: end, Span: Span{
		Chunk:   uint64(o.pieceChunk[o.pieces[place]]),
		From:    o.before(from),
		To:      o.before(end),
		Samples: end - from,
	}}
}

// laneSpan is the next span of one lane.
type laneSpan struct {
	Span
	lane int
	end  uint64 // the row after the span
}

// laneSpans is a heap of spans. On top is the span that is needed first.
type laneSpans []laneSpan

func (s laneSpans) Len() int           { return len(s) }
func (s laneSpans) Less(i, j int) bool { return compareSpans(s[i].Span, s[j].Span) < 0 }
func (s laneSpans) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// compareSpans orders spans as readers need them.
func compareSpans(a, b Span) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.To, b.To))
}

// Push and Pop complete heap.Interface.
func (s *laneSpans) Push(x any) { *s = append(*s, x.(laneSpan)) }

// Pop removes the last element.
func (s *laneSpans) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
