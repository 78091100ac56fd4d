package lookahead

import (
	"math"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// TestReaders_ListDescribesRanks checks the description of a rank, derived from its requests:
// position, rate, think time and time since the last request.
func TestReaders_ListDescribesRanks(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 0)
	ask := func(rank, epoch, batch uint64, now time.Time) *Visit {
		c := at(p, epoch, 40*batch, 40)
		c.Rank, c.WorldSize = rank, 2
		return r.Asked(d, c, now)
	}
	now := begin()
	for batch := range uint64(3) { // a request every two seconds, answered after one second and sent at once
		now = now.Add(time.Second)
		v := ask(0, 1, batch, now)
		now = now.Add(time.Second)
		if first := v.Answered(now); first != (batch == 0) {
			t.Errorf("batch %d: got the reader's first answer: %v, want %v", batch, first, batch == 0)
		}
		v.Ended(now)
	}
	v := ask(1, 0, 9, now)
	v.Answered(now)
	v.Ended(now)
	r.Heard(d, shuffle.Cursor{Plan: p, Epoch: p.Epoch(0), End: 40, BatchSize: 40, Rank: 7, WorldSize: 8}, 0, now)
	got := r.List(now.Add(time.Minute))
	if len(got) != 2 || got[0].Rank != 0 || got[1].Rank != 1 {
		t.Fatalf("got %+v, want ranks 0 and 1 in this order, and none of another gateway", got)
	}
	one, two := got[0], got[1]
	if one.Epoch != 1 || one.Batch != 2 || one.Behind != 0 || one.WorldSize != 2 || one.BatchSize != 40 || one.Idle != time.Minute+time.Second {
		t.Errorf("got %+v, want epoch 1, batch 2, the foremost, silent for a minute and a second", one)
	}
	if busy := r.List(now)[0].Rate; math.Abs(busy-10) > .1 || one.Rate > 1 {
		t.Errorf("got a rate of %.2f, and of %.2f after a minute without a request; want 20 samples in 2 s, and less than 1", busy, one.Rate)
	}
	if one.Think != time.Second || (one.Left-16*time.Second).Abs() > time.Second {
		t.Errorf("got %v between batches and %v left; want 1 s, and 160 samples in 16 s", one.Think, one.Left)
	}
	if one.Spent.Paused != 2 || one.Spent.Pauses != 2 || one.Spent.Bytes != 3 {
		t.Errorf("got %+v, want two pauses of a second and three seconds of waits for bytes", one.Spent)
	}
	if two.Epoch != 0 || two.Batch != 9 || two.Behind != 3 || two.Rate != 0 || two.Left != 0 || two.Think != 0 {
		t.Errorf("got %+v, want epoch 0, batch 9, three behind and nothing known of its pace", two)
	}
	late := shuffle.Cursor{Plan: p, Epoch: p.Epoch(0), End: 40, BatchSize: 40, Rank: 7, WorldSize: 8}
	r.read(d, late, now) // the rank reads at this gateway now
	if got := r.List(now.Add(rankIdle)); len(got) != 2 || got[1].Rank != 7 {
		t.Errorf("after %v: got %d ranks, want those that asked since, 1 and 7", rankIdle, len(got))
	}
	if got := r.List(now.Add(rankIdle + 1)); len(got) != 0 || r.ranks.Len() != 0 {
		t.Errorf("got %d ranks listed and %d remembered after a longer silence, want none", len(got), r.ranks.Len())
	}
}

// Ranks are sorted by all fields of their job. Ranks of one job are compared only with each other.
func TestReaders_ListSortsJobs(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 1000})
	type job struct {
		order              string
		window, seed       uint64
		batch, world, rank uint64
	}
	want := []job{ // in the order of the list
		{shuffle.Full, 0, 1, 10, 1, 0},
		{shuffle.None, 0, 0, 10, 1, 0},
		{shuffle.Window, 4, 1, 10, 1, 0},
		{shuffle.Window, 4, 1, 20, 2, 0},
		{shuffle.Window, 4, 1, 20, 2, 1},
		{shuffle.Window, 4, 1, 20, 4, 0},
		{shuffle.Window, 4, 2, 10, 1, 0},
		{shuffle.Window, 8, 1, 10, 1, 0},
	}
	for _, i := range []int{5, 2, 7, 0, 4, 6, 1, 3} {
		w := want[i]
		c := at(d.plan(t, w.order, w.window, w.seed), 0, uint64(i)*w.batch, w.batch)
		c.WorldSize, c.Rank = w.world, w.rank
		r.read(d, c, begin())
	}
	got := r.List(begin())
	if len(got) != len(want) {
		t.Fatalf("got %d ranks, want %d", len(got), len(want))
	}
	for i, g := range got {
		if g := (job{g.Params.Shuffle, g.Params.Window, g.Params.Seed, g.BatchSize, g.WorldSize, g.Rank}); g != want[i] {
			t.Errorf("place %d: got %+v, want %+v", i, g, want[i])
		}
		behind := uint64(0)
		if i == 3 { // the other rank of this job is a batch ahead
			behind = 1
		}
		if g.Behind != behind {
			t.Errorf("place %d: got %d batches behind, want %d", i, g.Behind, behind)
		}
	}
}

// Of several open requests, only the first one after an answer counts as preceded by think time.
func TestReaders_ThinkTimeOfParallelRequests(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 0)
	second := func(n int) time.Time { return begin().Add(time.Duration(n) * time.Second) }
	a := r.Asked(d, at(p, 0, 0, 10), second(0))
	b := r.Asked(d, at(p, 0, 10, 10), second(1))
	a.Answered(second(2))
	a.Ended(second(2))
	c := r.Asked(d, at(p, 0, 20, 10), second(5)) // three seconds after the answer
	e := r.Asked(d, at(p, 0, 30, 10), second(9)) // no answer since then
	for _, v := range []*Visit{b, c, e} {
		v.Answered(second(10))
		v.Ended(second(10))
	}
	f := r.Asked(d, at(p, 0, 40, 10), second(11))
	f.Answered(second(11))
	f.Ended(second(11))
	if got := r.List(second(11))[0].Spent; got.Paused != 2 || got.Pauses != 4 {
		t.Errorf("got %d pauses of %v s in all, want 2 of 4 s: three before the third request, one before the last", got.Paused, got.Pauses)
	}
	if a.Think != 0 || c.Think != 3*time.Second || f.Think <= time.Second || f.Think >= 3*time.Second {
		t.Errorf("got %v, %v and %v known of the time to think; want none, 3s and a mean of 3s and 1s", a.Think, c.Think, f.Think)
	}
}

// A rank that jumps may have a different number of concurrent requests afterwards.
func TestStep_DetectsJumpOfRank(t *testing.T) {
	d := newData(40, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	for _, c := range []struct {
		name         string
		epoch, first uint64
		most         int
	}{
		{"the next batch", 1, 50, 2},
		{"the same batch", 1, 40, 1},
		{"a batch before", 1, 30, 1},
		{"an epoch before", 0, 90, 1},
		{"the next epoch", 2, 0, 2},
	} {
		r := newReaders(t, Config{Budget: 100})
		var open []*Visit
		for _, first := range []uint64{30, 40} { // two requests at a time
			open = append(open, r.Asked(d, at(p, 1, first, 10), begin()))
		}
		for _, v := range open {
			v.Answered(begin().Add(time.Second / 2))
			v.Ended(begin().Add(time.Second / 2))
		}
		r.read(d, at(p, c.epoch, c.first, 10), begin().Add(time.Second))
		if got := r.ranks.Values()[0].clock.most; got != c.most {
			t.Errorf("%s: got %d requests at a time expected, want %d", c.name, got, c.most)
		}
	}
}
