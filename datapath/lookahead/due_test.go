package lookahead

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// dues returns when each chunk of a dataset is due, except chunks that no reader needs.
func (r *Readers) dues(d Dataset) map[int]time.Duration {
	out := map[int]time.Duration{}
	for c := range d.Chunks() {
		if due := r.NextUse(d, c).In; due != Never {
			out[c] = due
		}
	}
	return out
}

// In stored order chunk c has the positions from 10c to 10c+10.
func TestNextUse_IsFirstReadersUse(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 10})
	if got := r.NextUse(d, 0).In; got != Never {
		t.Errorf("without readers: got %v, want never", got)
	}
	p := d.plan(t, shuffle.None, 0, 0)
	now := pace(r, d, p, 11, time.Second, 0, begin()) // the reader is at chunk 10 and reads one chunk per second
	want := func(when string, chunk int, due time.Duration) {
		t.Helper()
		if got := r.NextUse(d, chunk).In.Round(time.Second); got != due {
			t.Errorf("%s, chunk %d: got %v, want %v", when, chunk, got, due)
		}
	}
	want("one reader", 10, 0)
	want("one reader", 25, 15*time.Second)
	want("one reader", 39, 29*time.Second)
	// The next epoch begins in 30 s. The golden ratio puts chunk 0 at 0.618 of its 40 s, and
	// chunk 1 at 0.236.
	want("one reader", 0, 55*time.Second)
	want("one reader", 1, 39*time.Second)
	if got := r.NextUse(newData(40, 10), 25).In; got != Never {
		t.Errorf("another data set: got %v, want never", got)
	}
	now = now.Add(time.Second)
	r.read(d, at(p, 0, 200, 10), now) // the reader of another job, at chunk 20
	want("two readers", 25, 5*time.Second)
	want("two readers", 12, 2*time.Second)
	want("two readers", 0, 45*time.Second)
	r.read(d, at(p, 0, 70, 10), now.Add(time.Second)) // a rank three batches behind
	if got := r.NextUse(d, 8).In; got > 2*time.Second {
		t.Errorf("chunk 8, a batch ahead of the last rank: got %v, want 2s at most", got)
	}
}

// NextUseAfter returns the result of NextUse if that is later than enough. Otherwise it returns any
// result that is not later than enough.
func TestNextUseAfter_StopsEarly(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 10})
	all := make([]NextUse, d.chunks) // combined results of the single readers
	for c := range all {
		all[c].In = Never
	}
	for seed := range uint64(6) {
		p := d.plan(t, shuffle.Slot, 16, seed)
		for i := range uint64(3) {
			alone, cursor := newReaders(t, Config{Budget: 10}), at(p, i, 1000*(3-i)+100*seed, 10)
			r.read(d, cursor, begin())
			alone.read(d, cursor, begin())
			for c := range all {
				one := alone.NextUse(d, c)
				all[c] = NextUse{min(all[c].In, one.In), all[c].Soon || one.Soon, all[c].Samples + one.Samples}
			}
		}
	}
	exact := 0
	for c, want := range all {
		if got := r.NextUse(d, c); got != want {
			t.Fatalf("chunk %d: got %+v of all readers, want %+v", c, got, want)
		}
		for _, enough := range all[:40] {
			got := r.NextUseAfter(d, c, enough)
			if want.later(enough) && (got.In != want.In || got.Soon != want.Soon) || want.later(got) || !want.later(enough) && got.later(enough) {
				t.Fatalf("chunk %d, %+v is enough: got %+v, want %+v", c, enough, got, want)
			}
			if got == want {
				exact++
			}
		}
	}
	if exact == 40*d.chunks {
		t.Error("got the result of all readers each time, want fewer asked")
	}
}

// For the next epoch, chunks are kept by their fixed positions, independent of the epochs' orders.
// So hits are spread over the epoch: a cache of half of the data serves about half of every tenth
// of it.
func TestNextUse_SpreadsHitsOverLaterEpochs(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.Window, 4, 1)
	var kept []map[int]bool
	for epoch := range uint64(3) {
		r := newReaders(t, Config{Budget: 2})
		r.read(d, at(p, epoch, 3990, 10), begin()) // all chunks except those of the last window were read
		due := r.dues(d)
		chunks := slices.SortedFunc(maps.Keys(due), func(a, b int) int { return cmp.Compare(due[a], due[b]) })
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
		if same < 192 { // all except those of the last window
			t.Errorf("got %d of 200 chunks that stay from epoch to epoch, want nearly all", same)
		}
	}
}
