package shuffle

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkSpans compares an epoch's spans with its order: each is correct and has the right count,
// they are in order, and spans that Spans(t) omits have ended by t.
func checkSpans(e *Epoch) error {
	p, s := e.plan, e.plan.Samples()
	spans := slices.Collect(e.Spans(0))
	if !e.Local() || s == 0 {
		if len(spans) != 0 {
			return fmt.Errorf("got %d spans, want none", len(spans))
		}
		return checkNext(e, 0, nil)
	}
	got, n := uint64(len(spans)), filled(p.chunks)
	switch m := min(p.params.Window, s); {
	case p.params.Shuffle != Slot || n <= m:
		if got != n || p.Reads() != n {
			return fmt.Errorf("got %d spans and %d reads, want %d, the chunks that are not empty", got, p.Reads(), n)
		}
	case got > p.Reads() || p.Reads() > n+2*m-1:
		return fmt.Errorf("got %d spans and %d reads, want at most %d", got, p.Reads(), n+2*m-1)
	}
	found := chunkSpans(e)
	if e.slot != nil && !e.slot.holdsAll {
		found = runs(e)
	}
	slices.SortFunc(found, compareSpans)
	if !slices.Equal(spans, found) {
		return fmt.Errorf("got spans %v, want %v", spans, found)
	}
	return checkLaterSpans(e, spans)
}

// filled returns the number of chunks with samples.
func filled(c chunkTable) (n uint64) {
	for i := range c.len() {
		n += min(1, c.size(uint32(i)))
	}
	return n
}

// chunkSpans computes the span of each chunk from the order: from its first sample to its last one,
// or its whole window.
func chunkSpans(e *Epoch) []Span {
	found := map[uint32]Span{}
	for t, x := range e.Append(nil, 0, e.plan.samples) {
		from, to := uint64(t), uint64(t)+1
		switch {
		case e.window != nil:
			in := e.window.find(from)
			from, to = in.base, in.base+in.perm.n
		case e.slot != nil:
			from, to = 0, e.plan.samples
		}
		c := e.plan.chunks.of(x)
		if s, ok := found[c]; ok {
			from = s.From
		}
		found[c] = Span{Chunk: uint64(c), From: from, To: to, Samples: found[c].Samples + 1}
	}
	return slices.Collect(maps.Values(found))
}

// runs computes the spans of the lanes from the order. A lane takes samples of one chunk after
// another. If a lane begins within a piece, it takes samples of that chunk twice, which is one span
// if the lane has no other piece.
func runs(e *Epoch) (found []Span) {
	s := e.plan.samples
	lanes, m := e.slot.appendLanes(nil, 0, s), e.slot.width
	open := make([]Span, m)
	for t, x := range e.Append(nil, 0, s) {
		c, row := uint64(e.plan.chunks.of(x)), uint64(t)/m*m
		last := &open[lanes[t]]
		if last.Samples > 0 && last.Chunk != c {
			found = append(found, *last)
			*last = Span{}
		}
		if last.Samples == 0 {
			*last = Span{Chunk: c, From: row}
		}
		last.To, last.Samples = min(s, row+m), last.Samples+1
	}
	return append(found, open...)
}

func checkLaterSpans(e *Epoch, spans []Span) error {
	s := e.plan.Samples()
	for _, t := range []uint64{1, s / 3, s / 2, s - 1, s, s + 1} {
		var want []Span
		for _, span := range spans {
			if span.To > t {
				want = append(want, span)
			}
		}
		if got := slices.Collect(e.Spans(t)); !slices.Equal(got, want) {
			return fmt.Errorf("Spans(%d): got %v, want %v", t, got, want)
		}
		if err := checkNext(e, t, want); err != nil {
			return err
		}
	}
	for range e.Spans(0) {
		break // a caller may stop at any span
	}
	return nil
}

// checkNext calls Next for every chunk, and for one that does not exist, and compares the results
// with the spans that end after t.
func checkNext(e *Epoch, t uint64, spans []Span) error {
	next := map[uint64]Span{}
	for _, span := range slices.Backward(spans) {
		next[span.Chunk] = span
	}
	for chunk := range uint64(e.plan.chunks.len()) + 1 {
		want, found := next[chunk]
		if got, ok := e.Next(chunk, t); ok != found || ok && got != want {
			return fmt.Errorf("Next(%d, %d): got %+v, %v, want %+v, %v", chunk, t, got, ok, want, found)
		}
	}
	return nil
}

func TestSpansHoldTheFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawParams(t))
		if err := checkSpans(p.Epoch(rapid.Uint64().Draw(t, "epoch"))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReads(t *testing.T) {
	unequal := make([]uint64, 512)
	for i := range unequal {
		unequal[i] = 90 + uint64(i*37%77)
	}
	for _, first := range [][]uint64{equal(512, 128), prefix(unequal...), equal(120, 9)} {
		n := uint64(len(first) - 1)
		for _, m := range []uint64{1, 8, 32, 64, 128} {
			slot := mustPlan(t, Params{Shuffle: Slot, Window: m}, first).Reads()
			least, limit := n+m, n+2*m-1
			if n <= m {
				least, limit = n, n
			}
			if slot < least || slot > limit {
				t.Errorf("slot, %d chunks, window %d: got %d reads, want %d to %d", n, m, slot, least, limit)
			}
			if window := mustPlan(t, Params{Shuffle: Window, Window: m}, first).Reads(); window != n {
				t.Errorf("window, %d chunks: got %d reads, want %d", n, window, n)
			}
		}
		full := mustPlan(t, Params{Shuffle: Full}, first)
		if got := full.Reads(); got != full.Samples() {
			t.Errorf("full: got %d reads, want one for each of %d samples", got, full.Samples())
		}
	}
}

// TestChunksBeginOneAfterAnother checks another effect of turns: chunks of equal size do not all
// begin at the same time, although each lane has a whole number of chunks.
func TestChunksBeginOneAfterAnother(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Slot, Window: 32, Seed: 1}, equal(512, 128)).Epoch(0)
	rows := map[uint64]int{}
	for span := range e.Spans(0) {
		rows[span.From/32]++
	}
	delete(rows, 0) // every lane begins at row 0
	for k, n := range rows {
		if n > 6 {
			t.Errorf("row %d: got %d chunks that begin, want at most 6 of 32", k, n)
		}
	}
}

// TestATurnCutsOnePieceOfALane counts spans of equal chunks. Each lane has four whole chunks and
// reads one of them in two parts, unless its turn begins at a chunk.
func TestATurnCutsOnePieceOfALane(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 16, Seed: 3}, equal(64, 50))
	for epoch := range uint64(20) {
		e := p.Epoch(epoch)
		want := 64
		for _, turn := range e.slot.turn {
			if turn%50 > 0 {
				want++
			}
		}
		if got := len(slices.Collect(e.Spans(0))); got != want || want == 64 {
			t.Errorf("epoch %d: got %d spans, want %d, more than 64", epoch, got, want)
		}
	}
}
