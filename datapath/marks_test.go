package datapath

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Readers that come one after another have the policy look at all chunks only as often as that may cost; what they come for
// soon is kept all the same, and in the end the policy has looked.
func TestManyReadersDoNotKeepTheCacheBusy(t *testing.T) {
	d := newDataset(t, 50, same(64, 3000), 64, 16<<10)
	p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	plan, e := d.plan(t, shuffle.None, 0), d.plan(t, shuffle.None, 0).Epoch(0)
	ask := func(first uint64) {
		p.readers.Asked(s, shuffle.Cursor{Plan: plan, Epoch: e, First: first, End: first + 1, BatchSize: 1}, time.Now())
		p.mark()
	}
	ask(0)
	p.marks.rest.until = time.Now().Add(time.Hour)
	looked := p.marks.clock
	ask(40)
	is := p.readers.Horizon()
	if is.SameClock(looked) || p.marks.clock != looked {
		t.Error("the policy was asked about all chunks again at once, or no reader has come")
	}
	if chunk := d.index.ChunkOf(40); p.marks.horizon != is || len(p.marks.wanted) == 0 {
		t.Errorf("chunk %d of a reader that has come is not kept", chunk)
	} else if _, ok := p.marks.wanted[s.key(chunk)]; !ok {
		t.Errorf("chunk %d of a reader that has come is not kept", chunk)
	}
	p.marks.rest.until = time.Time{}
	if p.mark(); p.marks.clock != is {
		t.Error("the policy was not asked when it had rested")
	}
}

// What everybody waits for rests in proportion.
func TestRest(t *testing.T) {
	var r rest
	now := time.Unix(1e9, 0)
	if !r.over(now) {
		t.Error("got a rest before anything was done")
	}
	r.after(now, now.Add(time.Millisecond))
	for _, c := range []struct {
		passed time.Duration
		over   bool
	}{{time.Millisecond, false}, {20 * time.Millisecond, false}, {21 * time.Millisecond, true}} {
		if got := r.over(now.Add(c.passed)); got != c.over {
			t.Errorf("after %v of which one was work: got over %v, want %v", c.passed, got, c.over)
		}
	}
}
