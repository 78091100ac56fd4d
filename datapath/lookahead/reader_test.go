package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// A request belongs to a reader near it, even across the end of an epoch, or to a reader that has
// skipped its batch.
func TestReader_NearBoundaries(t *testing.T) {
	d := newData(100, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	const near = 10 * nearBatches
	for _, c := range []struct {
		epoch, first uint64 // epoch and position of the reader
		to, place    uint64 // epoch and position of the request
		want         bool
	}{
		{1, 500, 1, 500 + near, true},
		{1, 500, 1, 500 + near + 10, false},
		{1, 500, 1, 500 - near, true},
		{1, 500, 1, 500 - near - 10, false},
		{1, 500, 1, 200, true}, // missed
		{1, 500, 2, 200, false},
		{1, 1000 - near, 2, near, true},
		{1, 1000 - near, 2, near + 10, false},
		{1, 1000 - near - 10, 2, near, false},
		{2, near, 1, 1000 - near, true},
		{2, near, 1, 1000 - near - 10, false},
		{2, near + 10, 1, 1000 - near, false},
		{3, 0, 1, 990, false},
		{1, 990, 3, 0, false},
	} {
		x := &reader{at: at(p, c.epoch, c.first, 10), missed: []uint64{200}}
		if got := x.near(at(p, c.to, c.place, 10)); got != c.want {
			t.Errorf("epoch %d position %d of a reader at epoch %d position %d: got near %v, want %v", c.to, c.place, c.epoch, c.first, got, c.want)
		}
	}
}

// Batches that a reader skips are recorded as missed until they are requested, unless the reader
// has jumped.
func TestReader_RecordsSkippedBatches(t *testing.T) {
	d := newData(200, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	for name, c := range map[string]struct {
		epoch, first uint64
		missed       int
	}{
		"the next batch":        {0, 10, 1},
		"the one after that":    {0, 20, 2},
		"as far as it may jump": {0, 10 * lateBatches, lateBatches},
		"farther":               {0, 10 * (lateBatches + 1), 0},
		"another epoch":         {1, 20, 0},
	} {
		x := &reader{at: at(p, 0, 0, 10), missed: []uint64{990}}
		x.skip(at(p, c.epoch, c.first, 10))
		if len(x.missed) != c.missed || c.missed > 1 && c.missed < lateBatches && !slices.Equal(x.missed, []uint64{990, 10}) {
			t.Errorf("%s: got %v missed, want %d", name, x.missed, c.missed)
		}
	}
	x := &reader{at: at(p, 0, 500, 10), missed: []uint64{460, 470}}
	x.late(at(p, 0, 470, 10))
	if !slices.Equal(x.missed, []uint64{460}) || x.lag != 30 || x.last() != 460 {
		t.Errorf("got %v missed, a lag of %d and chunks needed from %d on; want 460, 30 and 460", x.missed, x.lag, x.last())
	}
	if x.late(at(p, 0, 490, 10)); x.lag != 30 {
		t.Errorf("got a lag of %d after a request less late, want 30 still", x.lag)
	}
	if x.late(at(p, 0, 0, 10)); x.lag != 10*lateBatches {
		t.Errorf("got a lag of %d of one who is far behind, want %d", x.lag, 10*lateBatches)
	}
	if x.at.First = 100; x.last() != 0 {
		t.Errorf("got chunks needed from %d on at 100, want from the beginning", x.last())
	}
	for x.lag > 0 {
		before := x.lag
		if x.advance(at(p, 0, x.at.First+10, 10), begin()); x.lag >= before {
			t.Fatalf("got a lag of %d after one of %d, want it to fade", x.lag, before)
		}
	}
	if x.last() != x.at.First-behindBatches*10 {
		t.Errorf("got chunks needed from %d on at %d, want those of %d batches", x.last(), x.at.First, behindBatches)
	}
}

// A reader is as fast as its fastest rank, until that rank sends no more requests or reads
// elsewhere.
func TestReader_FollowsItsFastestRank(t *testing.T) {
	x, other := &reader{}, &reader{}
	if x.rate() != quick {
		t.Errorf("got a rate of %v of a reader without ranks, want %v", x.rate(), float64(quick))
	}
	thinking := func(seconds float64, seen time.Time) *rank {
		return &rank{reader: x, seen: seen, demand: demand{10, seconds}}
	}
	slow, fast := thinking(10, begin()), thinking(1, begin())
	for i, c := range []struct {
		thinks *rank
		after  time.Duration
		want   *rank
	}{
		{slow, 0, slow}, {fast, 0, fast}, {slow, 0, fast}, {slow, readerGone, fast}, {slow, readerGone + 1, slow}, {fast, 0, fast},
	} {
		if x.thought(c.thinks, begin().Add(c.after)); x.fastest != c.want || x.rate() != c.want.demand.rate() {
			t.Errorf("step %d: got a rate of %v, want %v", i, x.rate(), c.want.demand.rate())
		}
	}
	fast.reader = other
	if x.thought(slow, begin()); x.fastest != slow {
		t.Error("got the rate of a rank that reads elsewhere")
	}
	if got := (&demand{samples: 10}).rate(); got != quick {
		t.Errorf("got a rate of %v of one who takes no time, want %v", got, float64(quick))
	}
}

// The chunks needed soon reach to the end of the next window if that is longer than aheadChunks.
// They never exceed the memory, and they extend into the next epoch.
func TestReader_NeedsReachSoFar(t *testing.T) {
	for name, c := range map[string]struct {
		order  string
		window uint64
		budget int64
		first  uint64
		want   int // number of chunks needed now or soon
	}{
		"some chunks":             {shuffle.None, 0, 1000, 0, 1 + aheadChunks},
		"a small window":          {shuffle.Window, 4, 1000, 0, 4 + aheadChunks},
		"a large window":          {shuffle.Window, 40, 1000, 0, 40 + 33}, // the ends of a window's chunks are spread over the next window
		"as much as memory has":   {shuffle.None, 0, 5, 0, 5},
		"the end of the epoch":    {shuffle.None, 0, 1000, 990, 1 + aheadChunks},
		"less than is needed now": {shuffle.None, 0, 0, 0, 1},
	} {
		d := newData(100, 10)
		r := newReaders(t, Config{Budget: c.budget})
		r.read(d, at(d.plan(t, c.order, c.window, 1), 0, c.first, 10), begin())
		got := chunks(r.missing())
		if slices.Sort(got); len(slices.Compact(got)) != c.want {
			t.Errorf("%s: got %d chunks needed, want %d", name, len(got), c.want)
		}
	}
}
