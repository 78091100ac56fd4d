package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// A reader is new until its first batch has arrived. All requests that arrive before are for that
// batch, or for a batch soon after. A first batch that is read sample by sample does not hold back
// other reads.
func TestVisit_FirstBatchOfAReader(t *testing.T) {
	d := newData(40, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.None, 0, 0)
	now := begin()
	ask := func(first uint64) *Visit { return r.Asked(d, at(p, 0, first, 10), now) }
	waits := func() bool { return r.missing()[0].First }
	a, b := ask(20), ask(30)
	before := ask(10) // connections may send requests in any order
	behind := ask(20) // another rank
	for name, v := range map[string]struct {
		*Visit
		opens bool
	}{"first": {a, true}, "next": {b, false}, "the one before": {before, true}, "again, behind that": {behind, false}} {
		if !v.First || v.Opens != v.opens || !v.Followed() {
			t.Errorf("%s: got first %v, opens %v, followed %v; want true, %v, true", name, v.First, v.Opens, v.Followed(), v.opens)
		}
	}
	if !waits() {
		t.Error("got needs of a reader that has its first batch, want those of one that waits for it")
	}
	if a.Alone(); waits() {
		t.Error("got needs of a reader that waits, though its first batch waits for no whole chunk")
	}
	if !a.Answered(now) || b.Answered(now) || before.Answered(now) {
		t.Error("got another answer than the first one as the reader's first")
	}
	if b.Alone(); r.all[0].state != served {
		t.Error("a reader that had its first batch waits for it again")
	}
	if v := ask(40); v.First || v.Opens {
		t.Errorf("a later batch: got first %v, opens %v, want neither", v.First, v.Opens)
	} else {
		v.Answered(now)
		v.Ended(now)
	}
	behind.Answered(now)
	for _, v := range []*Visit{a, b, before, behind} {
		v.Ended(now)
	}
	if at, ok := a.Position(); !ok || at.First != 40 || at.Plan != p || at.Epoch.Number() != 0 {
		t.Errorf("got %+v, %v, want the reader at 40", at, ok)
	}
	r.Drop(d)
	if _, ok := a.Position(); ok {
		t.Error("a dropped reader has a position")
	}
	if !a.ComesFor(3) {
		t.Error("nothing is known of a reader that was dropped, want any chunk as one it may come for")
	}
}

// A repeated announcement keeps the reader if it is not before the first announced position. The
// announcement of another reader does not.
func TestReaders_AnnounceAgain(t *testing.T) {
	d := newData(400, 10)
	for name, c := range map[string]struct {
		epoch, first uint64 // announced five minutes later
		kept         bool   // the first reader still exists after six more minutes
	}{
		"farther on":    {1, 100, true},
		"the same":      {1, 20, true},
		"before":        {1, 0, false},
		"another epoch": {0, 20, false},
	} {
		r := newReaders(t, Config{Budget: 1000})
		p := d.plan(t, shuffle.None, 0, 0)
		now := begin()
		r.Announce(d, at(p, 1, 20, 10), now)
		changes, x := r.Changes(), r.all[0]
		if now = now.Add(readerComes / 2); !r.NextUse(d, 3).Soon {
			t.Fatal("got a chunk without readers, want it announced")
		}
		r.Announce(d, at(p, c.epoch, c.first, 10), now)
		now = now.Add(readerComes/2 + time.Minute)
		r.Forget(now)
		if kept := slices.Contains(r.all, x); kept != c.kept || (r.Changes() == changes) != c.kept {
			t.Errorf("%s: got the reader waited for: %v, after %d changes; want %v", name, kept, r.Changes()-changes, c.kept)
		}
	}
}

// A reader that already exists is not announced again.
func TestReaders_AnnounceAtExistingReader(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 1000})
	p := d.plan(t, shuffle.None, 0, 0)
	r.read(d, at(p, 0, 20, 10), begin())
	if r.Announce(d, at(p, 0, 0, 10), begin()); len(r.all) != 1 || r.all[0].state != served {
		t.Errorf("got %d readers, want the one that reads", len(r.all))
	}
	if r.Announce(d, at(p, 0, 2000, 10), begin()); len(r.all) != 2 || !r.NextUse(d, 203).Soon {
		t.Errorf("got %d readers, want one more where another is announced", len(r.all))
	}
}

// A reader at another gateway has its last reported position, and stays while it is reported.
func TestReaders_HeardMovesReader(t *testing.T) {
	d := newData(400, 10)
	r := newReaders(t, Config{Budget: 1000})
	p := d.plan(t, shuffle.None, 0, 0)
	now := begin()
	for batch := range uint64(60) {
		now = now.Add(time.Second)
		r.Heard(d, at(p, 0, 10*batch, 10), time.Second, now)
		r.Forget(now)
		if here, passed := r.NextUse(d, int(batch)+3).Soon, r.NextUse(d, max(int(batch)-5, 0)).Soon; batch > 5 && (!here || passed) {
			t.Fatalf("heard of at chunk %d: got chunk %d expected: %v, and %d: %v", batch, batch+3, here, batch-5, passed)
		}
	}
	if len(r.all) != 1 || len(r.List(now)) != 0 {
		t.Errorf("got %d readers and %d ranks listed, want one that is not listed", len(r.all), len(r.List(now)))
	}
}

// If several readers may be removed, a new reader replaces the one that has sent no request for the
// longest time.
func TestReaders_TheLongestSilentMakesRoom(t *testing.T) {
	d := newData(100, 10)
	for _, oldest := range []int{0, 1, 2} {
		r := newReaders(t, Config{Budget: 100, Plans: 3 * 2 * epochHolds * 100})
		var plans []shuffle.Cursor
		for seed := range uint64(4) {
			plans = append(plans, at(d.plan(t, shuffle.Window, 2, seed), 0, 0, 1))
		}
		now := begin()
		for i := range 4 { // the first reader is announced once more
			r.Announce(d, plans[(oldest+2+i)%3], now)
			now = now.Add(time.Second)
		}
		if !r.read(d, plans[3], now).First {
			t.Fatal("got no room for a reader that has come, with others only announced")
		}
		for i := range 3 {
			if there := r.find(d, plans[i]) != nil; there == (i == oldest) {
				t.Errorf("got reader %d there: %v, with %d announced first", i, there, oldest)
			}
		}
	}
}

// Plans with importance sampling keep more memory alive than others; stored order keeps none.
func TestReaders_CountPlanMemory(t *testing.T) {
	d := newData(100, 10)
	r := newReaders(t, Config{Budget: 100})
	for name, c := range map[string]struct {
		params shuffle.Params
		want   int64
	}{
		"none":             {shuffle.Params{Shuffle: shuffle.None}, 0},
		"window":           {shuffle.Params{Shuffle: shuffle.Window, Window: 4}, 2 * epochHolds * 100},
		"slot":             {shuffle.Params{Shuffle: shuffle.Slot, Window: 4}, 2 * epochHolds * 104},
		"slot, many lanes": {shuffle.Params{Shuffle: shuffle.Slot, Window: 5000}, 2 * epochHolds * 1100},
		"importance":       {shuffle.Params{Shuffle: shuffle.Window, Window: 4, Importance: "s"}, 2 * drawnHolds * 100},
	} {
		p := d.plan(t, shuffle.None, 0, 0)
		if got := r.holds(planKey{d, c.params}, p); got != c.want {
			t.Errorf("%s: got %d bytes, want %d", name, got, c.want)
		}
	}
}

// An epoch that is needed soon is prepared once for all readers, and not for a reader that has
// ended meanwhile.
func TestReaders_PrepareTheNextEpoch(t *testing.T) {
	d := newData(100, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.Window, 2, 1)
	now := begin()
	r.read(d, at(p, 1, 500, 10), now)
	r.read(d, at(p, 0, 980, 10), now)
	first, second := r.all[0], r.all[1]
	if second.next != first.at.Epoch {
		t.Error("a reader has prepared the current epoch of another reader of its plan")
	}
	for place := uint64(580); place < 1000; place += 80 {
		now = now.Add(time.Millisecond)
		r.read(d, at(p, 1, place, 10), now)
	}
	third := first.next
	if third == nil || third.Number() != 2 || first.coming != 0 || len(r.lacking) != 0 {
		t.Fatalf("got next epoch %v, %d on its way and %d lacking, want epoch 2 prepared", third, first.coming, len(r.lacking))
	}
	r.read(d, at(p, 1, 960, 10), now) // a request of another rank
	if first.next != third {
		t.Error("got the next epoch prepared once more")
	}
	r.read(d, at(p, 2, 0, 10), now.Add(time.Millisecond))
	if first.at.Epoch.Number() != 2 || first.next == third {
		t.Errorf("got a reader in epoch %d with epoch 2 as its next one", first.at.Epoch.Number())
	}
	r.mu.Lock()
	r.remove(second)
	r.publish()
	r.lacking = append(r.lacking, second)
	r.unlock() // must not look up the plan of a removed reader
	if second.position.Load() != nil || second.next != nil {
		t.Error("a removed reader has a position again")
	}
}

// A reader may move to another epoch while the next one is being prepared without a lock.
func TestReaders_PrepareAfterAJump(t *testing.T) {
	d := newData(100, 10)
	r := newReaders(t, Config{Budget: 100})
	p := d.plan(t, shuffle.Window, 2, 1)
	r.read(d, at(p, 5, 500, 10), begin())
	x := r.all[0]
	r.mu.Lock()
	x.next, x.coming = nil, 2 // as requested before the jump
	r.lacking = append(r.lacking, x)
	r.unlock()
	if x.next != nil || x.coming != 0 {
		t.Fatalf("got next epoch %v and %d on its way, want neither of the epoch that was left", x.next, x.coming)
	}
	now := begin()
	for place := uint64(580); place < 1000; place += 80 {
		now = now.Add(time.Millisecond)
		r.read(d, at(p, 5, place, 10), now)
	}
	if x.next == nil || x.next.Number() != 6 {
		t.Errorf("got next epoch %v, want epoch 6", x.next)
	}
}

// Chunks of other gateways are never read here. If a chunk is already in memory, the reader's
// second use of it counts.
func TestReaders_NextReadOfOwnedChunks(t *testing.T) {
	d := newData(100, 10)
	here := true
	r := newReaders(t, Config{Budget: 100, Mine: func(Dataset, int) bool { return here }})
	p := d.plan(t, shuffle.None, 0, 0)
	r.read(d, at(p, 0, 0, 10), begin())
	r.read(d, at(p, 0, 500, 10), begin())
	if once, again := r.NextRead(d, 50, false), r.NextRead(d, 50, true); once != 0 || again < 495 || again > 505 {
		t.Errorf("got chunk 50 read in %v and again in %v, want at once by the reader that stands there and after 500 samples by the other", once, again)
	}
	if here = false; r.NextRead(d, 50, false) != Never || r.NextUse(d, 50).In != Never {
		t.Error("got a chunk due here that another gateway keeps")
	}
}

// After a change of owners, the table computes the readers' chunks again and counts a change.
func TestReaders_ReownedCountsAsAChange(t *testing.T) {
	d := newData(100, 10)
	mine := 0
	r := newReaders(t, Config{Budget: 100, Mine: func(_ Dataset, chunk int) bool { return chunk%2 == mine }})
	p := d.plan(t, shuffle.None, 0, 0)
	r.read(d, at(p, 0, 0, 10), begin())
	for range 2 {
		for _, n := range r.missing() {
			if n.Chunk%2 != mine {
				t.Errorf("got chunk %d needed here, want those of remainder %d only", n.Chunk, mine)
			}
		}
		changes := r.Changes()
		mine = 1 - mine
		if r.Reowned(); r.Changes() == changes {
			t.Error("got no change, want one: reads ahead may be useless now")
		}
	}
}

// Chunks that only slower ranks may need are due immediately if a slower rank is known. Otherwise
// they are due after the chunks that are needed soon.
func TestReaders_NextUseOfStragglersChunks(t *testing.T) {
	d := newData(60, 10)
	p := d.plan(t, shuffle.None, 0, 0)
	for _, straggles := range []bool{false, true} {
		r := newReaders(t, Config{Budget: 17})
		for batch := range uint64(20) {
			r.read(d, at(p, 0, 10*batch, 10), begin())
		}
		if straggles {
			c := at(p, 0, 180, 10)
			c.Rank, c.WorldSize = 1, 2
			r.read(d, c, begin())
		}
		behind, now, soon, late := r.NextUse(d, 18), r.NextUse(d, 19), r.NextUse(d, 30), r.NextUse(d, 50)
		if straggles {
			if !behind.Soon || behind.In != behindDue {
				t.Errorf("a rank is at chunk 18: got %+v, want it due at once", behind)
			}
		} else if behind.Soon || behind.In <= soon.In || behind.In >= late.In {
			t.Errorf("no rank is known behind 19: got chunk 18 %+v, want it due after chunk 30 in %v and before chunk 50 in %v", behind, soon.In, late.In)
		}
		if !now.Soon || now.In != 0 || !soon.Soon || late.Soon {
			t.Errorf("got %+v, %+v and %+v of chunks 19, 30 and 50; want now, soon and later", now, soon, late)
		}
	}
}
