package lookahead

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// A reader that returns before it is forgotten is the same reader.
func TestReaderThatComesBackIsTheSame(t *testing.T) {
	d := newData(4, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 7)
	now := begin()
	for i, pause := range []time.Duration{0, time.Millisecond, time.Hour} {
		now = now.Add(pause)
		if first, want := r.read(d, at(p, 0, uint64(i), 1), now).First, i == 0; first != want || len(r.all) != 1 {
			t.Errorf("read %d: got a new reader: %v, of %d, want %v, of one", i, first, len(r.all), want)
		}
	}
}

// A plan that was dropped and prepared again is the same plan, so it has the same reader.
func TestReaderKeepsItsPlaceWhenItsPlanIsPreparedAgain(t *testing.T) {
	d := newData(4, 10)
	r := newReaders(t, Config{Budget: 100})
	for i, seed := range []uint64{7, 7, 8} {
		p := d.plan(t, shuffle.Window, 2, seed)
		if first, want := r.read(d, at(p, 0, uint64(i), 1), begin()).First, i != 1; first != want {
			t.Errorf("read %d, seed %d: got a new reader: %v, want %v", i, seed, first, want)
		}
	}
	if got := len(r.all); got != 2 {
		t.Errorf("got %d readers, want one for each seed", got)
	}
}

// The memory of the readers is bounded: few plans of a large dataset are followed, and many plans
// of small ones. Followed readers stay until they end, since replacing them in turns would waste
// all prefetches.
func TestReadersKeepFewLargePlans(t *testing.T) {
	for _, c := range []struct {
		order  string
		chunks int
		want   int
	}{
		{shuffle.Window, 1, readerLimit},
		{shuffle.Window, 400, 46},
		{shuffle.Window, 1600, 11},
		{shuffle.Window, 20_000, 1},
		{shuffle.Slot, 1600, 11},
		{shuffle.None, 20_000, readerLimit}, // this plan keeps no order of the chunks
	} {
		chunks, want := c.chunks, c.want
		d := newData(chunks, 10)
		r := newReaders(t, Config{Budget: 100, Plans: 2 << 20})
		var plans []*shuffle.Plan
		for seed := range uint64(readerLimit + 10) {
			plans = append(plans, d.plan(t, c.order, min(2, uint64(chunks)), seed))
		}
		now, came := begin(), 0
		for batch := range uint64(4) {
			for _, p := range plans {
				now = now.Add(time.Millisecond)
				if r.read(d, at(p, 0, batch, 1), now).First {
					came++
				}
			}
		}
		if len(r.all) != want || came != want {
			t.Errorf("%s, %d chunks: got %d readers followed, new ones %d times; want %d and no other", c.order, chunks, len(r.all), came, want)
		}
		last := plans[len(plans)-1]
		if now = now.Add(readerNew + 1); !r.read(d, at(last, 0, 4, 1), now).First {
			t.Errorf("%s, %d chunks: a job is not followed though the others have gone", c.order, chunks)
		}
	}
}

// Jobs that read the same plan share its memory.
func TestReadersOfOnePlanShareIt(t *testing.T) {
	d := newData(1000, 10)
	r := newReaders(t, Config{Budget: 100, Plans: 5 * epochHolds * 1000})
	p := d.plan(t, shuffle.Window, 2, 0)
	for i := range uint64(6) {
		r.read(d, at(p, 0, 1000*i, 1), begin())
	}
	if got := len(r.all); got != 4 {
		t.Errorf("got %d readers followed, want 4: two epochs of one, and another for each of the others", got)
	}
}

// A reader that waits for bytes has not ended, and announced readers are removed for active ones.
func TestReaders_RemoveIdleForNewReader(t *testing.T) {
	d := newData(100, 10)
	r := newReaders(t, Config{Budget: 100, Plans: 2 * epochHolds * 100})
	now := begin()
	plan := func(seed uint64) shuffle.Cursor { return at(d.plan(t, shuffle.Window, 2, seed), 0, 0, 1) }
	r.Announce(d, plan(1), now)
	waits := r.Asked(d, plan(2), now)
	if !waits.First {
		t.Fatal("one who was announced keeps out one who has come")
	}
	now = now.Add(time.Hour)
	if r.Announce(d, plan(3), now); len(r.all) != 1 || r.all[0].state == announced {
		t.Error("one who is announced drives out one who waits")
	}
	if r.read(d, plan(4), now).First {
		t.Error("one who comes drives out one who waits")
	}
	waits.Answered(now)
	waits.Ended(now)
	if !r.read(d, plan(4), now.Add(readerNew+1)).First {
		t.Error("got no room for a new reader, though the one before has gone")
	}
}

// A slow reader is kept while there is room. A new reader replaces it once the slow one has sent no
// request for readerNew.
func TestMakeRoom_ForgetsSilentReaders(t *testing.T) {
	d := newData(100, 10)
	r := newReaders(t, Config{Budget: 100, Plans: 2 * epochHolds * 100})
	slow, other := d.plan(t, shuffle.Window, 2, 1), d.plan(t, shuffle.Window, 2, 2)
	now := begin()
	for batch := range uint64(5) {
		now = now.Add(10 * time.Second)
		r.read(d, at(slow, 0, batch, 1), now)
	}
	for after, want := range []bool{false, true} {
		if got := r.read(d, at(other, 0, 0, 1), now.Add(readerNew+time.Duration(after))).First; got != want {
			t.Errorf("%v after the last request of the slow reader: got another one followed %v, want %v", readerNew+time.Duration(after), got, want)
		}
	}
}

// A new reader replaces readers that have ended, whether or not Forget was called.
func TestAdd_ForgetsReadersThatHaveGone(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	r.read(d, at(d.plan(t, shuffle.Window, 2, 1), 0, 0, 1), begin())
	r.read(d, at(d.plan(t, shuffle.Window, 2, 2), 0, 0, 1), begin().Add(readerNew+1))
	if len(r.all) != 1 {
		t.Errorf("got %d readers, want the new one alone", len(r.all))
	}
}

// However many ranks send requests, the table of ranks is bounded.
func TestRanksAreBounded(t *testing.T) {
	d := newData(4, 1)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 0)
	for rank := range uint64(maxRanks + 10) {
		c := at(p, 0, 0, 4)
		c.Rank, c.WorldSize = rank, 1<<20
		r.read(d, c, begin().Add(time.Duration(rank)))
	}
	got := r.List(begin())
	if len(got) != maxRanks {
		t.Fatalf("got %d ranks, want %d", len(got), maxRanks)
	}
	if got[0].Rank != 10 || got[len(got)-1].Rank != maxRanks+9 {
		t.Errorf("got ranks %d to %d, want the newest, 10 to %d", got[0].Rank, got[len(got)-1].Rank, maxRanks+9)
	}
	if got := len(r.all); got != 1 {
		t.Errorf("got %d readers for ranks near each other, want one", got)
	}
}

// The ranks of one job, some of them slightly behind, are one reader. The chunks of the last rank
// stay.
func TestRankALittleBehindKeepsItsChunks(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 20})
	p := d.plan(t, shuffle.None, 0, 0)
	for batch := range uint64(10) {
		for rank := range uint64(2) {
			c := at(p, 0, 10*(batch-min(batch, 2*rank)), 10) // the second rank is two batches behind
			c.Rank, c.WorldSize = rank, 2
			r.read(d, c, begin())
		}
	}
	if len(r.all) != 1 {
		t.Fatalf("got %d readers, want one", len(r.all))
	}
	for c, want := range map[int]bool{5: false, 6: true, 7: true, 8: true, 9: true, 10: true} {
		if got := r.NextUse(d, c).Soon; got != want {
			t.Errorf("chunk %d of a reader at 9: got expected %v, want %v", c, got, want)
		}
	}
	for _, c := range chunks(r.missing()) {
		if c < 9 {
			t.Errorf("chunk %d, which the foremost rank has left, is to be fetched ahead", c)
		}
	}
}

// Chunks that a slower rank still needs are due before the next chunks of the other ranks, so they
// stay if memory holds no more. Without a slower rank they are due in the next epoch.
func TestStragglerKeepsItsChunks(t *testing.T) {
	d := newData(60, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	for _, behind := range []uint64{0, 6} {
		r := newReaders(t, Config{Budget: 17})
		for batch := range uint64(20) {
			for _, late := range []uint64{0, behind} {
				c := at(p, 0, 10*(batch-min(batch, late)), 10)
				c.Rank, c.WorldSize = late, 8
				r.read(d, c, begin())
			}
		}
		for _, c := range []int{13, 16} {
			if got, want := r.NextUse(d, c).In < r.NextUse(d, 30).In, behind > 0; got != want {
				t.Errorf("chunk %d of a reader at 19, one rank at %d: got %v, and %v for chunk 30", c, 19-behind, r.NextUse(d, c).In, r.NextUse(d, 30).In)
			}
		}
	}
}

// A reader that has ended is forgotten after a time that depends on its pace. A reader that has
// jumped elsewhere is forgotten too.
func TestReadersThatHaveGoneAreForgotten(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	for name, c := range map[string]struct {
		batches int
		pace    time.Duration
		jump    bool
		kept    time.Duration
	}{
		"asked once":           {1, 0, false, readerNew},
		"quick":                {20, 10 * time.Millisecond, false, readerGone},
		"slow":                 {5, time.Second, false, readerGaps * time.Second},
		"asked once, and left": {1, 0, true, readerLeft},
	} {
		r := newReaders(t, Config{Budget: 1000})
		now := begin()
		for i := range c.batches {
			if i > 0 {
				now = now.Add(c.pace)
			}
			r.read(d, at(p, 0, uint64(10*i), 10), now)
		}
		last := now
		if c.jump {
			r.read(d, at(p, 0, 3000, 10), now)
		}
		for _, after := range []time.Duration{c.kept, c.kept + 1} {
			r.Forget(last.Add(after))
			if got, want := r.NextUse(d, c.batches+3).Soon, after == c.kept; got != want {
				t.Errorf("%s: got its chunks expected after %v: %v, want %v", name, after, got, want)
			}
		}
		if got := r.NextUse(d, 303).Soon; got != c.jump {
			t.Errorf("%s: got the chunks at its new position expected %v, want %v", name, got, c.jump)
		}
	}
}

// Two jobs that cannot be distinguished alternate under the same rank. Neither reader is removed as
// one that has jumped for good.
func TestTwinsAreTwoReaders(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	r := newReaders(t, Config{Budget: 1000})
	now := begin()
	for i := range uint64(100) {
		now = now.Add(100 * time.Millisecond)
		r.read(d, at(p, 0, 2000+10*i, 10), now)
		r.read(d, at(p, 0, 10*i, 10), now)
	}
	if len(r.all) != 2 || !r.NextUse(d, 101).Soon || !r.NextUse(d, 301).Soon {
		t.Errorf("got %d readers, want two whose chunks are expected", len(r.all))
	}
}

// An announced reader is kept for longer, and is the same reader when it arrives.
func TestAnnouncedReaderIsWaitedFor(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	r := newReaders(t, Config{Budget: 1000})
	now := begin()
	for _, first := range []uint64{0, 500, 2000} { // the positions up to which chunks were loaded
		r.Announce(d, at(p, 0, first, 10), now)
		now = now.Add(time.Minute)
	}
	if len(r.all) != 1 || !r.NextUse(d, 3).Soon || r.NextUse(d, 53).Soon {
		t.Fatalf("got %d readers, want one at the beginning", len(r.all))
	}
	if got := r.missing(); len(got) != 0 {
		t.Errorf("got needs %v of a reader that has not come, want none", chunks(got))
	}
	v := r.read(d, at(p, 0, 0, 10), now)
	if v.First || len(r.all) != 1 {
		t.Errorf("got a new reader of %d, want the one announced", len(r.all))
	}
	r.read(d, at(p, 0, 10, 10), now.Add(time.Second))
	if r.Forget(now.Add(time.Minute)); r.NextUse(d, 3).Soon {
		t.Error("a reader that came and went is waited for as if it had not come")
	}
	r.Announce(d, at(d.plan(t, shuffle.Full, 0, 0), 0, 0, 10), now)
	if got := len(r.all); got != 0 {
		t.Errorf("got %d readers of an order without locality, want none", got)
	}
}

// A client with several connections may request a batch long after the batches that follow it. Such
// a request does not create another reader. A request that is as far behind, for a batch that was
// read before, does.
func TestLateRequestIsNoReaderOfItsOwn(t *testing.T) {
	d := newData(100, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	r := newReaders(t, Config{Budget: 100})
	for batch := range uint64(40) {
		if batch != 15 {
			r.read(d, at(p, 0, 10*batch, 10), begin())
		}
	}
	r.read(d, at(p, 0, 150, 10), begin())
	if len(r.all) != 1 || r.all[0].at.First != 390 {
		t.Errorf("got %d readers, the first at %d, after a late request; want one at 390", len(r.all), r.all[0].at.First)
	}
	r.read(d, at(p, 0, 150, 10), begin())
	if len(r.all) != 2 {
		t.Errorf("got %d readers after a batch was read again, want 2", len(r.all))
	}
}

// All state of a dataset is dropped at once, even an epoch that is being prepared. Other datasets
// are not affected.
func TestDropForgetsADataSet(t *testing.T) {
	r := newReaders(t, Config{Budget: 100})
	goes, stays := newData(40, 10), newData(40, 10)
	for _, d := range []*data{goes, stays} {
		p := d.plan(t, shuffle.Window, 4, 1)
		for first := uint64(0); first < 400; first += 10 {
			r.read(d, at(p, 0, first, 10), begin().Add(time.Duration(first)*time.Millisecond))
		}
		r.Announce(d, at(p, 3, 0, 10), begin())
	}
	r.lacking = append(r.lacking, r.all...)
	held := r.held
	r.Drop(goes)
	if len(r.all) != 2 || len(r.plans) != 1 || len(r.lacking) != 2 || r.held*2 != held || len(r.List(begin())) != 1 {
		t.Errorf("got %d readers of %d plans, %d to prepare, %d bytes of %d and %d ranks, want half of each",
			len(r.all), len(r.plans), len(r.lacking), r.held, held, len(r.List(begin())))
	}
	if left := r.List(begin()); left[0].Dataset != stays {
		t.Error("got the ranks of the data set that was dropped, want those of the other one")
	}
	for _, x := range r.lacking {
		if x.dataset != stays {
			t.Error("got a reader of the data set that was dropped to prepare")
		}
	}
	if got := r.NextUse(goes, 0).In; got != Never {
		t.Errorf("chunk of a data set that was dropped: got due in %v, want never", got)
	}
	if got := r.NextUse(stays, 0).In; got == Never {
		t.Error("chunk of another data set is not due any more")
	}
	for _, n := range r.missing() {
		if n.Dataset == goes {
			t.Fatalf("got chunk %d missing of a data set that was dropped", n.Chunk)
		}
	}
}

// A request of a rank may read the clock before another request ends, and be recorded after it.
// Think times are never negative.
func TestReaders_ThinkTimeIsNotNegative(t *testing.T) {
	r := newReaders(t, Config{Budget: 100})
	d := newData(40, 10)
	p := d.plan(t, shuffle.Window, 4, 1)
	r.read(d, at(p, 0, 0, 10), begin().Add(time.Second))
	if v := r.read(d, at(p, 0, 10, 10), begin()); v.Think != 0 {
		t.Errorf("got %v of thinking, want none", v.Think)
	}
}
