package shuffle

import (
	"fmt"
	"slices"
	"testing"
)

// someChunks have different sizes, and some of them are empty.
func someChunks() []uint64 {
	var sizes []uint64
	for i := range uint64(40) {
		sizes = append(sizes, (i*7)%11)
	}
	return prefix(sizes...)
}

// TestSequenceOfAWindowIsItsSpans: each window has the chunks from its first place to the first
// place of the next window.
func TestSequenceOfAWindowIsItsSpans(t *testing.T) {
	for _, params := range []Params{{Shuffle: Window, Window: 6, Seed: 3}, {Shuffle: Window, Window: 1, Seed: 3}, {Shuffle: Window, Window: 8, Strata: 4, Seed: 3}, {Shuffle: Window, Window: 99}} {
		e := mustPlan(t, params, someChunks()).Epoch(2)
		s, ok := e.Sequence()
		if !ok || s.Lanes != nil {
			t.Fatalf("%+v: got no sequence, or lanes %v", params, s.Lanes)
		}
		checkPermutation(t, s.Chunks, e.plan.chunks.len())
		spans := slices.Collect(e.Spans(0))
		for at := uint64(0); at < e.plan.samples; {
			w, ok := e.WindowAt(at)
			if !ok || w.From != at || w.To <= at {
				t.Fatalf("%+v: got window %+v at position %d, want one that begins there", params, w, at)
			}
			if inside, _ := e.WindowAt(w.To - 1); inside != w {
				t.Errorf("%+v: got window %+v at its last position, want %+v", params, inside, w)
			}
			end := uint64(len(s.Chunks))
			if next, ok := e.WindowAt(w.To); ok {
				end = next.Place
			}
			var got, want []uint64
			for _, chunk := range s.Chunks[w.Place:end] {
				if e.plan.chunks.size(chunk) > 0 {
					got = append(got, uint64(chunk))
				}
			}
			for _, span := range spans {
				if span.From == w.From {
					want = append(want, span.Chunk)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%+v: got chunks %v in window %d, want %v", params, got, w.Number, want)
			}
			at = w.To
		}
	}
}

// TestSequenceOfSlotIsItsLanes: row k takes a sample of each lane, from the lane's chunks one after
// another.
func TestSequenceOfSlotIsItsLanes(t *testing.T) {
	for _, window := range []uint64{1, 3, 7, 60, 500} {
		for epoch := range uint64(5) {
			t.Run(fmt.Sprint(window, epoch), func(t *testing.T) {
				e := mustPlan(t, Params{Shuffle: Slot, Window: window, Seed: 9}, someChunks()).Epoch(epoch)
				s, ok := e.Sequence()
				if !ok || len(s.Lanes) != int(min(window, e.plan.samples))+1 {
					t.Fatalf("got %d borders of lanes, want one more than lanes", len(s.Lanes))
				}
				checkPermutation(t, s.Chunks, e.plan.chunks.len())
				for _, chunk := range s.Chunks[s.Lanes[len(s.Lanes)-1]:] {
					if n := e.plan.chunks.size(chunk); n > 0 {
						t.Errorf("got chunk %d of %d samples after the lanes", chunk, n)
					}
				}
				checkLanes(t, e, s)
			})
		}
	}
}

// checkLanes follows each lane through the epoch.
func checkLanes(t *testing.T, e *Epoch, s Sequence) {
	t.Helper()
	for lane := range len(s.Lanes) - 1 {
		var want []uint32
		for k := range e.slot.length(lane) {
			_, place := e.slot.read(lane, k)
			chunk := e.slot.pieceChunk[e.slot.pieces[place]]
			if !slices.Contains(want, chunk) && !slices.Contains(s.Chunks[:s.Lanes[lane]], chunk) {
				want = append(want, chunk)
			}
		}
		if got := s.Chunks[s.Lanes[lane]:s.Lanes[lane+1]]; !slices.Equal(got, want) {
			t.Errorf("lane %d: got chunks %v, want %v", lane, got, want)
		}
	}
}

func checkPermutation(t *testing.T, got []uint32, n int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(got))
	for i, v := range sorted {
		if v != uint32(i) {
			t.Fatalf("got chunk %d in place of %d of the sequence, sorted", v, i)
		}
	}
	if len(got) != n {
		t.Errorf("got %d chunks, want %d", len(got), n)
	}
}

// TestOrdersWithoutASequence: a None order has no sequence, and a Full order takes samples, not
// chunks.
func TestOrdersWithoutASequence(t *testing.T) {
	for _, name := range []string{None, Full} {
		e := mustPlan(t, Params{Shuffle: name}, someChunks()).Epoch(0)
		_, sequence := e.Sequence()
		_, window := e.WindowAt(0)
		if sequence || window {
			t.Errorf("%s: got a sequence (%v) or a window (%v), want neither", name, sequence, window)
		}
	}
	e := mustPlan(t, Params{Shuffle: Window, Window: 2}, someChunks()).Epoch(0)
	if w, ok := e.WindowAt(e.plan.samples); ok {
		t.Errorf("got window %+v past the end, want none", w)
	}
}
