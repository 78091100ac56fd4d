package lookahead

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// In stored order chunk c holds positions 10c to 10c+10.
func TestDueIsWhenTheFirstReaderComes(t *testing.T) {
	d := newData(40, 10)
	r := New(Config{Budget: 10})
	if got := r.Due(d, 0); got != Never {
		t.Errorf("without readers: got %v, want never", got)
	}
	p := d.plan(t, shuffle.None, 0, 0)
	now := pace(r, d, p, 11, time.Second, 0, begin()) // stands at chunk 10, one chunk a second
	want := func(when string, chunk int, due time.Duration) {
		t.Helper()
		if got := r.Due(d, chunk).Round(time.Second); got != due {
			t.Errorf("%s, chunk %d: got %v, want %v", when, chunk, got, due)
		}
	}
	want("one reader", 10, 0)
	want("one reader", 25, 15*time.Second)
	want("one reader", 39, 29*time.Second)
	// The next epoch begins in 30 s; the golden ratio puts chunk 0 at 0.618 of its 40 s, chunk 1 at 0.236.
	want("one reader", 0, 55*time.Second)
	want("one reader", 1, 39*time.Second)
	if got := r.Due(newData(40, 10), 25); got != Never {
		t.Errorf("another data set: got %v, want never", got)
	}
	now = now.Add(time.Second)
	r.read(d, at(p, 0, 200, 10), now) // another job, at chunk 20
	want("two readers", 25, 5*time.Second)
	want("two readers", 12, 2*time.Second)
	want("two readers", 0, 45*time.Second)
	r.read(d, at(p, 0, 70, 10), now.Add(time.Second)) // a rank three batches behind
	if got := r.Due(d, 8); got > 2*time.Second {
		t.Errorf("chunk 8, a batch ahead of the last rank: got %v, want 2s at most", got)
	}
}
