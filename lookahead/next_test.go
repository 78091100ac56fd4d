package lookahead

import (
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
	r.order(d)                                        // asks for the next epoch
	r.Needs(now)                                      // prepares it
	first := r.order(d)
	if got, want := first[30].Sub(first[20]), first[25].Sub(first[15]); len(first) != 40 || got != want {
		t.Errorf("got %v and %v between chunks ten apart, of %d, want the same, of all 40", got, want, len(first))
	}
	if !first[9].After(first[39]) || !first[9].After(first[0]) {
		t.Error("what was read is not needed after all that was not, in the order of the next epoch")
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

// Until the next epoch is prepared, which only who asks for it costs, what was read counts as needed some time in it.
func TestNextEpochIsPreparedWhenAskedFor(t *testing.T) {
	d := newData(40, 10)
	r := New(Config{Budget: 2})
	p := d.plan(t, shuffle.Window, 4, 1)
	r.read(d, at(p, 0, 200, 10), begin())
	r.Needs(begin())
	if r.readers[0].next != nil {
		t.Error("the next epoch was prepared though nobody asked for it")
	}
	rough := r.order(d)
	r.Needs(begin())
	if r.readers[0].next == nil {
		t.Fatal("the next epoch was not prepared")
	}
	exact := r.order(d)
	e := p.Epoch(1)
	for c := range d.chunks {
		if _, later := p.Epoch(0).Next(uint64(c), 200); later {
			if !rough[c].Equal(exact[c]) {
				t.Errorf("chunk %d of this epoch: got %v and %v, want one instant", c, rough[c], exact[c])
			}
			continue
		}
		span, _ := e.Next(uint64(c), 0)
		if want := begin().Add(time.Duration(200 + span.From)); !exact[c].Equal(want) {
			t.Errorf("chunk %d of the next epoch: got %v, want %v", c, exact[c], want)
		}
	}
}
