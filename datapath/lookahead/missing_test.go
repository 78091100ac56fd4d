package lookahead

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// pace lets a reader read some batches of ten samples, with a think time and a wait for each, and
// returns the time at the end.
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

// Of two readers with skewed demand, the reader that would stall first is served first, chunk by
// chunk. The deadline is computed from think time: waiting for the store does not change a reader's
// deadline.
func TestDeadlinesFollowDemand(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		fast, slow := newData(400, 10), newData(400, 10)
		r := newReaders(t, Config{Budget: 1000})
		p := fast.plan(t, shuffle.None, 0, 0)
		now := pace(r, slow, p, 4, 400*time.Millisecond, 0, begin())
		pace(r, fast, p, 4, 100*time.Millisecond, wait, now)
		needs := r.missing()
		if !slices.IsSortedFunc(needs, func(a, b Need) int { return cmp.Compare(a.Due, b.Due) }) {
			t.Error("the needs do not ascend by deadline")
		}
		for _, n := range needs {
			step := 100 * time.Millisecond
			if n.Dataset == slow {
				step = 400 * time.Millisecond
			}
			if want := time.Duration(n.Chunk-3) * step; (n.Due - want).Abs() > time.Millisecond {
				t.Errorf("waits of %v: chunk %d of a reader at 3: got a deadline in %v, want in %v", wait, n.Chunk, n.Due, want)
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

// Ranks that train together wait for a rank that waits for its data. These waits do not make their
// chunks due later.
func TestRanksThatWaitForOneAnotherAreNotSlow(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 1000})
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
		for rank, v := range visits { // the last rank receives its bytes late
			if rank == 3 {
				now = now.Add(stall)
			}
			v.Answered(now)
			v.Ended(now)
		}
		now = now.Add(compute)
	}
	for _, n := range r.missing() {
		if want := time.Duration(n.Chunk-5) * compute; (n.Due - want).Abs() > time.Millisecond {
			t.Errorf("chunk %d of a reader at 5: got a deadline in %v, want in %v", n.Chunk, n.Due, want)
		}
	}
}

// A chunk that several readers need is listed once while it is being fetched, with the earliest
// deadline.
func TestReadersOfOneEpochShareTheirChunks(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 30})
	p := d.plan(t, shuffle.None, 0, 0)
	for _, first := range []uint64{0, 100} { // at chunks 0 and 10
		r.read(d, at(p, 0, first, 10), begin())
	}
	var got []int
	for n := range r.Missing() {
		got = append(got, n.Chunk)
		d.resident[n.Chunk] = true
	}
	slices.Sort(got)
	want := make([]int, 10+1+aheadChunks)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(got, want) {
		t.Errorf("got needs %v, want each of %v once", got, want)
	}
}

// The cursor of a reader is at its first missing chunk: chunks in memory are not checked again
// until a chunk is lost, and skipped chunks are yielded again.
func TestCursorStandsAtTheFirstMissingChunk(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 1000})
	p := d.plan(t, shuffle.None, 0, 0)
	r.read(d, at(p, 0, 0, 10), begin())
	for n := range r.Missing() {
		if n.Chunk < 5 || n.Chunk == 7 {
			d.resident[n.Chunk] = true
		}
	}
	if got := chunks(r.missing()); got[0] != 5 || got[1] != 6 || got[2] != 8 || len(got) != aheadChunks+1-6 {
		t.Errorf("got %v missing, want 5, 6 and 8 to 16", got)
	}
	delete(d.resident, 3)
	if got := chunks(r.missing()); got[0] != 5 {
		t.Errorf("got %v missing, want those from 5 on: nothing says that one was lost", got)
	}
	r.Lost()
	if got := chunks(r.missing())[0]; got != 3 {
		t.Errorf("after chunk 3 was lost: got %d missing first, want it", got)
	}
	r.read(d, at(p, 0, 60, 10), begin().Add(time.Second))
	if got := chunks(r.missing()); got[0] != 6 || got[1] != 8 || got[len(got)-1] != 6+aheadChunks {
		t.Errorf("at chunk 6: got %v missing, want 6 and 8 to 22", got)
	}
}

// Chunks that are needed soon include those of the next epoch, in that epoch's order.
func TestSoonReachesIntoTheNextEpoch(t *testing.T) {
	d := newData(40, 10)
	for name, window := range map[string]uint64{shuffle.None: 0, shuffle.Window: 4, shuffle.Slot: 4} {
		r := newReaders(t, Config{Budget: 1000})
		p := d.plan(t, name, window, 3)
		now := begin()
		r.read(d, at(p, 0, 380, 10), now)
		needs := r.missing()
		for span := range p.Epoch(1).Spans(0) {
			if !r.NextUse(d, int(span.Chunk)).Soon {
				t.Errorf("%s: the first chunk of the next epoch is not expected", name)
			}
			if due, want := r.NextUse(d, int(span.Chunk)).In, takes(20+span.From, quick); due > want {
				t.Errorf("%s: the first chunk of the next epoch is due in %v, want %v", name, due, want)
			}
			break
		}
		if len(needs) < 10 {
			t.Errorf("%s: got %d needs, want also those of the next epoch", name, len(needs))
		}
	}
}

// The remaining samples of a chunk are counted from the reader's position.
func TestNeed_SamplesCountFromPosition(t *testing.T) {
	d := newData(80, 100)
	r := newReaders(t, Config{Budget: 1000})
	p := d.plan(t, shuffle.Window, 2, 3)
	r.read(d, at(p, 0, 190, 10), begin()) // the window's two chunks share 200 positions
	for _, n := range r.missing()[:3] {
		span, _ := p.Epoch(0).Next(uint64(n.Chunk), 190)
		want := uint64(100)
		if span.From == 0 {
			want = 5
		}
		if n.Samples != want || r.NextUse(d, n.Chunk).Samples != want {
			t.Errorf("chunk %d: got %d and %d samples left, want %d", n.Chunk, n.Samples, r.NextUse(d, n.Chunk).Samples, want)
		}
	}
}

// Every missing chunk is also needed soon for NextUse, even if memory ends among the chunks of a
// window that begin together. Otherwise a prefetched chunk would be evicted for the next one at
// once, and so on without end.
func TestMissing_ChunksAreExpected(t *testing.T) {
	d := newData(80, 4)
	for _, order := range []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full} {
		p := d.plan(t, order, 7, 7)
		for budget := range int64(60) {
			r := newReaders(t, Config{Budget: budget})
			for first := uint64(0); first < p.Samples(); first += 53 {
				r.read(d, at(p, 1, first, 8), begin())
				for n := range r.Missing() {
					if !r.NextUse(d, n.Chunk).Soon {
						t.Fatalf("%s, memory for %d chunks, at sample %d: chunk %d is missing, but not expected", order, budget, first, n.Chunk)
					}
				}
			}
		}
	}
}

// With any number of readers, the chunks of their current batches are needed soon, and chunks
// without remaining samples are not missing.
func TestMissing_BatchChunksAreExpected(t *testing.T) {
	const readers, batches = 32, 15
	d := newData(2000, 10)
	var cursors []shuffle.Cursor
	for i := range uint64(readers) {
		cursors = append(cursors, at(d.plan(t, shuffle.Slot, 2, i), 0, 0, 10))
	}
	for _, step := range []uint64{1, 4} { // number of batches from one request to the next
		r := newReaders(t, Config{Budget: 5})
		for batch := range uint64(batches) {
			for i, at := range cursors {
				at.First = 10 * batch * step
				at.End = at.First + at.BatchSize
				r.read(d, at, begin())
				for span := range at.Epoch.Spans(at.First) {
					if span.From < at.End && !r.NextUse(d, int(span.Chunk)).Soon {
						t.Fatalf("batch %d of reader %d: chunk %d, which it needs, is not expected", batch, i, span.Chunk)
					}
				}
			}
			for _, n := range r.missing() {
				if n.Samples == 0 || n.Samples > 10 {
					t.Fatalf("batch %d: got a need of %d samples of chunk %d", batch, n.Samples, n.Chunk)
				}
			}
		}
	}
}

// TestMissing_BeginsANewEpochAtItsStart checks that the chunks needed in a new epoch are those at
// its start, not those at the position where the previous epoch ended.
func TestMissing_BeginsANewEpochAtItsStart(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 1000})
	p := d.plan(t, shuffle.None, 0, 0)
	for epoch := range uint64(3) {
		for first := uint64(0); first < 400; first += 10 {
			r.read(d, at(p, epoch, first, 10), begin())
			want := make([]int, 1+aheadChunks)
			for i := range want {
				want[i] = (int(first)/10 + i) % 40
			}
			if got := chunks(r.missing()); !slices.Equal(got, want) {
				t.Errorf("a reader at %d in epoch %d: got chunks %v, want %v", first, epoch, got, want)
			}
		}
	}
}

// TestABatchNeedsItsBlock reads batches of ten chunks of one sample, in blocks of four batches. A
// batch may have samples of any chunk of its block, so all of them are needed until the block ends.
func TestABatchNeedsItsBlock(t *testing.T) {
	const size, block = 10, 40
	for _, c := range []struct{ first, from, to uint64 }{
		{0, 0, 40}, {10, 0, 40}, {30, 0, 40}, {40, 40, 80}, {70, 40, 80},
		{80, 80, 90}, // the last block has one batch
		{90, 90, 95}, // the rest is no whole batch
	} {
		d := newData(95, 1)
		r := newReaders(t, Config{Budget: 1000})
		p := d.plan(t, shuffle.None, 0, 0)
		here := at(p, 0, c.first, size)
		here.Block = block
		r.read(d, here, begin())
		needs := r.missing()
		if uint64(len(needs)) < c.to-c.from {
			t.Fatalf("batch at %d: got %d needs, want at least %d", c.first, len(needs), c.to-c.from)
		}
		for i, n := range needs[:c.to-c.from] { // more chunks follow, which later blocks and the next epoch need
			if want := int(c.from) + i; n.Chunk != want {
				t.Errorf("batch at %d: need %d: got chunk %d, want %d", c.first, i, n.Chunk, want)
			}
			if use := r.NextUse(d, n.Chunk); !use.Soon || use.Samples != 1 {
				t.Errorf("batch at %d: chunk %d: got its %d samples used in %v, want 1 soon", c.first, n.Chunk, use.Samples, use.In)
			}
		}
	}
}
