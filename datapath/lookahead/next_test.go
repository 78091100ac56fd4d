package lookahead

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// order returns the order in which a data set's chunks are needed next, those that nobody comes for left out.
func (r *Readers) order(d Dataset) map[int]time.Time {
	out := map[int]time.Time{}
	for c := range d.Chunks() {
		if t := r.Next(d, c); !t.IsZero() {
			out[c] = t
		}
	}
	return out
}

// The next use of a chunk is that by whoever comes for it first, in this epoch or the next one.
func TestNextIsTheFirstUseByAnybody(t *testing.T) {
	d, other := newData(40, 10), newData(40, 10)
	r := New(Config{Budget: 10})
	p := d.plan(t, shuffle.None, 0, 0)
	if got := r.order(d); len(got) != 0 {
		t.Fatalf("got next uses of %d chunks without a reader, want none", len(got))
	}
	now := pace(r, d, p, 11, time.Second, 0, begin()) // stands at chunk 10, one chunk a second
	r.anchor(now)                                     // as when the second one comes
	r.stand(now)
	first := r.order(d)
	if got, want := first[30].Sub(first[20]), first[25].Sub(first[15]); len(first) != 40 || got != want {
		t.Errorf("got %v and %v between chunks ten apart, of %d, want the same, of all 40", got, want, len(first))
	}
	if !first[9].After(first[39]) || !first[0].After(first[39]) {
		t.Error("what was read is not needed after all that was not")
	}
	if len(r.order(other)) != 0 {
		t.Error("somebody comes for chunks of a data set that nobody reads")
	}
	// A second reader, ten chunks and more behind.
	r.read(d, at(p, 0, 0, 10), now)
	both := r.order(d)
	for c := range 40 {
		if both[c].After(first[c]) && c > 10 {
			t.Errorf("chunk %d: got a later use with a second reader", c)
		}
	}
	if !both[9].Before(both[39]) {
		t.Error("what the second reader is about to need counts as needed last")
	}
}

// Answers stay comparable while the clock is the same, however long a reader waits; whoever comes or goes sets it anew.
func TestNextKeepsItsClock(t *testing.T) {
	d := newData(400, 10)
	r := New(Config{Budget: 10})
	p := d.plan(t, shuffle.None, 0, 0)
	now := pace(r, d, p, 3, time.Second, 0, begin())
	r.order(d)
	r.Needs(now)
	before, clock := r.order(d), r.Horizon()
	r.read(d, at(p, 0, 30, 10), now.Add(time.Hour))
	after := r.order(d)
	for c := 10; c < 400; c++ {
		if !before[c].Equal(after[c]) {
			t.Fatalf("chunk %d: got %v and %v, want one instant", c, before[c], after[c])
		}
	}
	if !r.Horizon().SameClock(clock) {
		t.Error("the clock was set anew though nobody came or went")
	}
	r.read(d, at(p, 0, 3000, 10), now.Add(time.Hour))
	if r.Horizon().SameClock(clock) {
		t.Error("the clock was not set anew for a second reader")
	}
	clock = r.Horizon()
	for _, c := range []struct {
		first uint64
		same  bool
	}{{3010, true}, {3070, false}} { // an epoch has 4,000 samples
		r.read(d, at(p, 0, c.first, 10), now.Add(time.Hour))
		if got := r.Horizon().SameClock(clock); got != c.same {
			t.Errorf("one of two readers has come to %d, the other has not moved: got the same clock %v, want %v", c.first, got, c.same)
		}
	}
}

// What this epoch has used stays for the next one by a place of its own, whatever the orders of the epochs are, and what
// stays comes at all times of an epoch: a cache of half the data serves about half of every tenth of it.
func TestWhatStaysComesEvenly(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.Window, 4, 1)
	var kept []map[int]bool
	for epoch := range uint64(3) {
		r := New(Config{Budget: 2})
		r.read(d, at(p, epoch, 3990, 10), begin()) // all but the last window's chunks were read
		next := r.order(d)
		chunks := slices.SortedFunc(maps.Keys(next), func(a, b int) int { return next[a].Compare(next[b]) })
		kept = append(kept, map[int]bool{})
		for _, c := range chunks[:200] {
			kept[epoch][c] = true
		}
		came := make([]int, 10)
		for span := range p.Epoch(epoch + 1).Spans(0) {
			if kept[epoch][int(span.Chunk)] {
				came[span.From*10/4000]++
			}
		}
		for part, n := range came {
			if n < 10 || n > 30 {
				t.Errorf("epoch %d: got %d of the 40 chunks in tenth %d, want about half of them", epoch+1, n, part)
			}
		}
	}
	for epoch := 1; epoch < len(kept); epoch++ {
		same := 0
		for c := range kept[0] {
			if kept[epoch][c] {
				same++
			}
		}
		if same < 192 { // but for those of the last window
			t.Errorf("got %d of 200 chunks that stay from epoch to epoch, want nearly all", same)
		}
	}
}
