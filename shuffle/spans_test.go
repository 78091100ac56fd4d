package shuffle

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkSpans holds an epoch's spans against its order: every sample is delivered within the one span of
// its chunk that it belongs to, spans come in order and each is counted right, and what Spans(t) leaves out has ended by t.
func checkSpans(e *Epoch) error {
	p, s := e.plan, e.plan.Samples()
	spans := slices.Collect(e.Spans(0))
	if !e.Local() || s == 0 {
		if len(spans) != 0 {
			return fmt.Errorf("got %d spans, want none", len(spans))
		}
		return checkNext(e, 0, nil)
	}
	if got := uint64(len(spans)); got != p.Reads() {
		return fmt.Errorf("got %d spans, want %d, the reads of an epoch", got, p.Reads())
	}
	delivered := make([]uint64, len(spans))
	for t, x := range e.Append(nil, 0, s) {
		chunk := p.chunks.of(x)
		inside := x - p.chunks[chunk]
		found := 0
		for i, span := range spans {
			if span.Chunk != uint64(chunk) || inside < span.FirstSample || inside >= span.FirstSample+span.Samples {
				continue
			}
			found++
			delivered[i]++
			if uint64(t) < span.From || uint64(t) >= span.To {
				return fmt.Errorf("position %d: sample %d is delivered outside of its span %+v", t, x, span)
			}
		}
		if found != 1 {
			return fmt.Errorf("position %d: sample %d lies in %d spans, want 1", t, x, found)
		}
	}
	for i, span := range spans {
		if delivered[i] != span.Samples {
			return fmt.Errorf("span %+v: got %d samples, want %d", span, delivered[i], span.Samples)
		}
		if i > 0 && (span.From < spans[i-1].From || span.From == spans[i-1].From && span.Chunk < spans[i-1].Chunk) {
			return fmt.Errorf("span %+v comes after %+v", span, spans[i-1])
		}
	}
	return checkLaterSpans(e, spans)
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
		break // a reader may stop at any span
	}
	return nil
}

// checkNext asks for every chunk, and for one too many, and compares with the spans that end after t.
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
			if limit := n + min(m, n) - 1; slot < n || slot > limit {
				t.Errorf("slot, %d chunks, window %d: got %d reads, want %d to %d", n, m, slot, n, limit)
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

// TestChunksBeginOneAfterAnother holds what q is for: chunks of one size do not begin all at once.
func TestChunksBeginOneAfterAnother(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Slot, Window: 32, Seed: 1}, equal(512, 128)).Epoch(0)
	rows := map[uint64]int{}
	for span := range e.Spans(0) {
		k, _ := e.slot.rows.find(span.From)
		rows[k]++
	}
	delete(rows, 0) // every lane begins at row 0
	for k, n := range rows {
		if n > 2 {
			t.Errorf("row %d: got %d chunks that begin, want at most 2", k, n)
		}
	}
}
