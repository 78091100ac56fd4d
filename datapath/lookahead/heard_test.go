package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// shareOf returns a table of readers for a gateway that owns only every n-th chunk.
func shareOf(tb testing.TB, n *int, budget int64) *Readers {
	tb.Helper()
	return newReaders(tb, Config{Budget: budget, Mine: func(_ Dataset, chunk int) bool { return chunk%*n == 0 }})
}

// Chunks that another gateway keeps are never needed and never due, so the memory reaches further
// ahead.
func TestReaders_LookAheadForOwnedChunks(t *testing.T) {
	d := newData(400, 10)
	for _, n := range []int{1, 2, 8} {
		r := shareOf(t, &n, 10)
		p := d.plan(t, shuffle.None, 0, 0)
		now := begin()
		for batch := range uint64(20) {
			now = now.Add(time.Second)
			r.read(d, at(p, 0, batch*5, 5), now)
		}
		needs := r.missing()
		far := 0
		for _, need := range needs {
			if need.reader.at.Plan != p {
				t.Errorf("chunk %d: got another plan than its reader's", need.Chunk)
			}
			far = max(far, need.Chunk)
		}
		// The reader is at chunk 9, and some of the chunks behind it are kept here.
		if len(needs) < 8 || far < 9+7*n {
			t.Errorf("1 of %d: got %d chunks needed, up to chunk %d; want those of the next %d at least", n, len(needs), far, 8*n)
		}
		for c := range d.Chunks() {
			due := r.NextUse(d, c).In
			if mine := c%n == 0; (due == Never) == mine || !mine && r.NextUse(d, c).Soon {
				t.Fatalf("1 of %d, chunk %d: due in %v, expected %v; want this only for chunks kept here", n, c, due, r.NextUse(d, c).Soon)
			}
		}
	}
}

// When the owners change, the readers need other chunks from that moment on.
func TestReownedReadersComeForOtherChunks(t *testing.T) {
	d := newData(400, 10)
	n := 4
	r := shareOf(t, &n, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	r.read(d, at(p, 0, 0, 5), begin())
	if r.NextUse(d, 1).Soon || !r.NextUse(d, 4).Soon || r.NextUse(d, 1).In != Never {
		t.Fatalf("got chunk 1 expected %v, 4 %v; want only chunks kept here", r.NextUse(d, 1).Soon, r.NextUse(d, 4).Soon)
	}
	n = 1
	r.Reowned()
	got := chunks(r.missing())
	if !r.NextUse(d, 1).Soon || r.NextUse(d, 1).In == Never || !slices.Contains(got, 1) || slices.Contains(got, 4*9) {
		t.Errorf("got chunk 1 expected %v, %v missing; want the next ones, each", r.NextUse(d, 1).Soon, got)
	}
}

// Chunks are prefetched for a reader at another gateway as for one here, by its own demand. The
// first chunk is the one that any reader, here or there, would stall for first.
func TestHeard_LooksAheadForRemoteReader(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 100})
	here, there := d.plan(t, shuffle.Window, 8, 1), d.plan(t, shuffle.Window, 8, 2)
	now := pace(r, d, here, 5, time.Second, 0, begin()) // 10 samples per second
	r.Heard(d, at(there, 0, 100, 10), 10*time.Millisecond, now)
	needs := r.missing()
	due := map[*shuffle.Plan][]time.Duration{}
	for _, n := range needs {
		due[n.reader.at.Plan] = append(due[n.reader.at.Plan], n.Due)
	}
	if len(due[here]) == 0 || len(due[there]) == 0 {
		t.Fatalf("got %d needs of the reader here and %d of the one elsewhere, want some of each", len(due[here]), len(due[there]))
	}
	if last, want := due[there][len(due[there])-1], time.Second; last > want {
		t.Errorf("got %v until the reader elsewhere needs the last chunk, want %v at most: it takes 1000 samples a second", last, want)
	}
	if got := len(r.List(now)); got != 1 {
		t.Errorf("got %d readers listed, want the one that is here", got)
	}
	for n := uint64(1); n < 20; n++ { // it proceeds
		now = now.Add(10 * time.Millisecond)
		r.Heard(d, at(there, 0, 100+80*n, 10), 10*time.Millisecond, now)
	}
	if got := len(r.all); got != 2 {
		t.Errorf("got %d readers, want 2: one that asks for many batches at a time is the same", got)
	}
	now = now.Add(readerNew + time.Second)
	r.Forget(now)
	for _, n := range r.missing() {
		if n.reader.at.Plan == there {
			t.Fatal("the reader elsewhere has gone and is looked ahead for")
		}
	}
}

// Ranks of one job at several gateways are one reader, and the fastest rank sets the pace. While a
// rank elsewhere is reported, the reader stays even if its ranks here have left.
func TestRanksHereAndElsewhereAreOneReader(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.Window, 8, 1)
	now := pace(r, d, p, 5, time.Second, 0, begin())
	elsewhere := at(p, 0, 50, 10)
	elsewhere.Rank = 1
	r.Heard(d, elsewhere, 100*time.Millisecond, now)
	if got := len(r.all); got != 1 {
		t.Fatalf("got %d readers, want 1", got)
	}
	if got := r.all[0].rate(); got != 100 {
		t.Errorf("got a demand of %v, want 100 samples a second: the fastest rank's", got)
	}
	now = now.Add(time.Millisecond)
	r.read(d, at(d.plan(t, shuffle.Window, 8, 9), 0, 0, 10), now) // another job
	r.read(d, at(p, 0, 2000, 10), now)                            // the rank at this gateway jumps
	now = now.Add(time.Second)
	r.Forget(now)
	found := false
	for _, x := range r.all {
		found = found || x.at.First == 50
	}
	if !found {
		t.Error("the reader is forgotten though a rank elsewhere reads there")
	}
}

// An order without locality gives no predictions, for a reader at any gateway.
func TestHeard_IgnoresOrderWithoutLocality(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	if r.Heard(d, at(d.plan(t, shuffle.Full, 0, 1), 0, 0, 10), time.Second, begin()); len(r.all) != 0 {
		t.Errorf("got %d readers, want none", len(r.all))
	}
}

// A visit returns its reader's position as long as the reader exists.
func TestVisit_Position(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.Window, 2, 1)
	v := r.read(d, at(p, 0, 0, 10), begin())
	r.read(d, at(p, 0, 10, 10), begin())
	if where, here := v.Position(); !v.Followed() || !here || where.First != 10 {
		t.Errorf("got followed %v, there %v, at %d; want it at 10", v.Followed(), here, where.First)
	}
	r.Forget(begin().Add(time.Hour))
	if _, here := v.Position(); here {
		t.Error("a reader that has gone is followed")
	}
}
