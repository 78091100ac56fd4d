package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// pace has a reader read some batches of ten, with a think time of its own, and returns the position that it has come to.
func pace(r *Readers, d Dataset, p *shuffle.Plan, batches uint64, think, wait time.Duration, now time.Time) time.Time {
	for i := range batches {
		v := r.Asked(d, at(p, 0, 10*i, 10), now)
		now = now.Add(wait)
		v.Answered(now)
		v.Ended(now)
		if i+1 < batches {
			now = now.Add(think)
		}
	}
	return now
}

// Of two readers with skewed demand the one is served first that would stall first, chunk by chunk. The deadline comes from think
// time: one that the store keeps waiting has the same as if it had not been.
func TestDeadlinesFollowDemand(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		fast, slow := newData(400, 10), newData(400, 10)
		r := New(Config{Budget: 1000})
		p := fast.plan(t, shuffle.None, 0, 0)
		now := pace(r, slow, p, 4, 400*time.Millisecond, 0, begin())
		now = pace(r, fast, p, 4, 100*time.Millisecond, wait, now)
		needs := r.Needs(now)
		if !slices.IsSortedFunc(needs, func(a, b Need) int { return a.Deadline.Compare(b.Deadline) }) {
			t.Error("the needs do not ascend by deadline")
		}
		for _, n := range needs {
			step := 100 * time.Millisecond
			if n.Dataset == slow {
				step = 400 * time.Millisecond
			}
			if want := now.Add(time.Duration(n.Chunk-3) * step); n.Deadline.Sub(want).Abs() > time.Millisecond {
				t.Errorf("waits of %v: chunk %d of a reader at 3: got a deadline in %v, want in %v", wait, n.Chunk, n.Deadline.Sub(now), want.Sub(now))
			}
		}
		ahead := func(d Dataset) (n int) {
			for _, need := range needs[:20] {
				if need.Dataset == d {
					n++
				}
			}
			return n
		}
		if f, s := ahead(fast), ahead(slow); f < 3*s {
			t.Errorf("waits of %v: got %d chunks of the fast reader and %d of the slow one among the first, want four times as many", wait, f, s)
		}
	}
}

// Ranks that train together wait for the one that waits for its data. That is no reason to bring it later.
func TestRanksThatWaitForOneAnotherAreNotSlow(t *testing.T) {
	d := newData(400, 10)
	r := New(Config{Budget: 1000})
	p := d.plan(t, shuffle.None, 0, 0)
	now := begin()
	const compute, stall = 100 * time.Millisecond, time.Second
	for batch := range uint64(6) {
		var visits []*Visit
		for rank := range uint64(4) {
			c := at(p, 0, 10*batch, 10)
			c.Rank, c.WorldSize = rank, 4
			visits = append(visits, r.Asked(d, c, now))
		}
		for rank, v := range visits { // the last one gets its bytes late
			if rank == 3 {
				now = now.Add(stall)
			}
			v.Answered(now)
			v.Ended(now)
		}
		now = now.Add(compute)
	}
	for _, n := range r.Needs(now) {
		if want := time.Duration(n.Chunk-5) * compute; (n.Deadline.Sub(now) - want).Abs() > time.Millisecond {
			t.Errorf("chunk %d of a reader at 5: got a deadline in %v, want in %v", n.Chunk, n.Deadline.Sub(now), want)
		}
	}
}

// Where the memory holds no more, a slow reader's chunks give way to those that a fast one needs sooner.
func TestSlowReaderHoldsNoMemoryThatAFastOneNeeds(t *testing.T) {
	fast, slow := newData(400, 10), newData(400, 10)
	r := New(Config{Budget: 20})
	p := fast.plan(t, shuffle.None, 0, 0)
	now := pace(r, slow, p, 4, 10*time.Second, 0, begin())
	if !r.Expected(slow, 19) {
		t.Fatal("a reader alone does not have all the memory")
	}
	pace(r, fast, p, 4, 100*time.Millisecond, 0, now)
	for c := 3; c < 3+1+aheadChunks; c++ {
		if !r.Expected(fast, c) {
			t.Errorf("chunk %d of the fast reader is not expected", c)
		}
	}
	if !r.Expected(slow, 3) {
		t.Error("what the slow reader needs now is not expected")
	}
	if r.Expected(slow, 10) {
		t.Error("the slow reader holds memory for what it needs much later")
	}
}

// A chunk that several readers need takes its room once, and is listed once, with the first deadline.
func TestReadersOfOneEpochShareTheirChunks(t *testing.T) {
	d := newData(400, 10)
	r := New(Config{Budget: 30})
	p := d.plan(t, shuffle.None, 0, 0)
	now := begin()
	for _, first := range []uint64{0, 100} { // ten chunks apart
		r.read(d, at(p, 0, first, 10), now)
	}
	got := chunks(r.Needs(now))
	slices.Sort(got)
	want := make([]int, 10+1+aheadChunks)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(got, want) {
		t.Errorf("got needs %v, want each of %v once", got, want)
	}
}

// The horizon reaches over the end of an epoch.
func TestHorizonReachesIntoTheNextEpoch(t *testing.T) {
	d := newData(40, 10)
	for name, window := range map[string]uint64{shuffle.None: 0, shuffle.Window: 4, shuffle.Slot: 4} {
		r := New(Config{Budget: 1000})
		p := d.plan(t, name, window, 3)
		now := begin()
		r.read(d, at(p, 0, 380, 10), now)
		needs := r.Needs(now)
		for span := range p.Epoch(1).Spans(0) {
			if !r.Expected(d, int(span.Chunk)) {
				t.Errorf("%s: the first chunk of the next epoch is not expected", name)
			}
			break
		}
		if len(needs) < 10 {
			t.Errorf("%s: got %d needs, want also those of the next epoch", name, len(needs))
		}
	}
}

// What is left of a chunk counts from where the reader stands.
func TestNeedsSayWhatIsLeft(t *testing.T) {
	d := newData(80, 100)
	r := New(Config{Budget: 1000})
	p := d.plan(t, shuffle.Window, 2, 3)
	r.read(d, at(p, 0, 190, 10), begin()) // 200 positions of two chunks
	for _, n := range r.Needs(begin())[:3] {
		span, _ := p.Epoch(0).Next(uint64(n.Chunk), 190)
		want := uint64(100)
		if span.From == 0 {
			want = 5
		}
		if n.Samples != want || r.Horizon().Samples(d, n.Chunk) != want {
			t.Errorf("chunk %d: got %d and %d samples left, want %d", n.Chunk, n.Samples, r.Horizon().Samples(d, n.Chunk), want)
		}
	}
}

// A chunk that a reader needs at the end of an epoch and again at the beginning of the next is one need.
func TestChunkNeededTwiceIsOneNeed(t *testing.T) {
	d := newData(4, 100)
	r := New(Config{Budget: 1000})
	r.read(d, at(d.plan(t, shuffle.Window, 2, 3), 0, 300, 10), begin())
	got := r.Needs(begin())
	if len(got) != 4 {
		t.Errorf("got needs %v of 4 chunks, want each once", chunks(got))
	}
	for _, n := range got[:2] {
		if n.Samples != 150 || r.Horizon().Samples(d, n.Chunk) != 150 {
			t.Errorf("chunk %d: got %d and %d samples left, want 50 and 100 again", n.Chunk, n.Samples, r.Horizon().Samples(d, n.Chunk))
		}
	}
}

// What the horizon holds fits the memory, whoever reads; where chunks that are needed now do not fit, those in memory stay.
func TestHorizonFitsTheMemory(t *testing.T) {
	d := newData(400, 10)
	for budget := range int64(60) {
		r := New(Config{Budget: budget})
		now := begin()
		for i, name := range []string{shuffle.None, shuffle.Window, shuffle.Slot} {
			p := d.plan(t, name, 20, uint64(i))
			for _, first := range []uint64{0, 1000, 3990} {
				r.read(d, at(p, 0, first, 10), now)
				for c := range r.Horizon().All() {
					d.resident[c.Chunk] = true
				}
				r.read(d, at(p, 0, first+8, 10), now)
			}
		}
		if got := int64(len(r.Horizon().places)); got > budget {
			t.Errorf("got %d chunks expected, want at most %d", got, budget)
		}
		if got := int64(len(r.Horizon().places)); got < min(budget, 40) {
			t.Errorf("got %d chunks expected, want a full memory of %d", got, budget)
		}
	}
}

// With many readers the horizon is not worked out anew whenever one of them moves on; what their batches need is within it
// all the same, and nothing is fetched ahead that is delivered already.
func TestManyReadersShareOneLookAhead(t *testing.T) {
	const readers, batches = 32, 15
	d := newData(2000, 10)
	var cursors []shuffle.Cursor
	for i := range uint64(readers) {
		cursors = append(cursors, at(d.plan(t, shuffle.Slot, 2, i), 0, 0, 10))
	}
	for _, c := range []struct {
		step   uint64 // batches from request to request
		budget int64  // chunks for each reader
		most   int    // horizons
	}{{1, 12, readers + readers*batches/4}, {4, 5, readers + readers*batches}} {
		r := New(Config{Budget: readers * c.budget})
		now, horizons, was := begin(), 0, r.Horizon()
		for batch := range uint64(batches) {
			for i, at := range cursors {
				at.First = 10 * batch * c.step
				at.End = at.First + at.BatchSize
				r.read(d, at, now)
				if is := r.Horizon(); is != was {
					horizons, was = horizons+1, is
				}
				for span := range at.Epoch.Spans(at.First) {
					if span.From < at.End && !was.Has(d, int(span.Chunk)) {
						t.Fatalf("batch %d of reader %d: chunk %d, which it needs, is not within the horizon", batch, i, span.Chunk)
					}
				}
			}
			for _, n := range r.Needs(now) {
				if n.Samples == 0 || n.Samples > readers*10 {
					t.Fatalf("batch %d: got a need of %d samples of chunk %d", batch, n.Samples, n.Chunk)
				}
			}
		}
		if horizons > c.most {
			t.Errorf("got %d horizons for %d requests, want %d at most", horizons, readers*batches, c.most)
		}
	}
}
