package lookahead

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// A reader remembers only the last batches that it skipped. A late request for one of these belongs
// to the reader; a request for a batch from long ago belongs to another reader.
func TestReader_RemembersTheLastMissedBatches(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 0)
	now := begin()
	last := uint64(0)
	for ; last < 2*(4*lateBatches); last += 2 {
		now = now.Add(time.Millisecond)
		r.read(d, at(p, 0, 10*last, 10), now)
	}
	last -= 2
	for _, c := range []struct {
		back uint64 // distance in batches; odd, so that it is a skipped batch
		own  bool
	}{{2*lateBatches - 1, true}, {2*lateBatches + 1, false}} {
		if first := r.read(d, at(p, 0, 10*(last-c.back), 10), now).First; first == c.own {
			t.Errorf("a request for a missed batch %d behind: got a new reader: %v, want %v", c.back, first, !c.own)
		}
	}
}
