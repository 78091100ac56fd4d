package lookahead

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// A job of eight ranks with shares that follow four homes.
const (
	homes     = 4
	homeRanks = 8
)

// homeRead records one request of a rank of that job.
func (r *Readers) homeRead(d Dataset, p *shuffle.Plan, rank, first uint64, now time.Time) *Visit {
	c := at(p, 0, first, 64)
	c.Rank, c.WorldSize, c.Sharing, c.Homes = rank, homeRanks, shuffle.Locality, homes
	return r.read(d, c, now)
}

// expectHomes checks that the needed and due chunks of a table are those of the groups that read
// here.
func expectHomes(t *testing.T, r *Readers, d *data, p *shuffle.Plan, now time.Time, here ...uint64) {
	t.Helper()
	needed := map[int]bool{}
	for _, n := range r.missing() {
		needed[n.Chunk] = true
	}
	count := 0
	for c := range d.Chunks() {
		first, last, ok := p.HomeGroups(uint64(c), homes)
		comes := false
		for _, g := range here {
			comes = comes || ok && first <= g && g <= last
		}
		if due := r.NextUse(d, c).In; (due == Never) == comes {
			t.Errorf("chunk %d of groups %d to %d: due in %v, want a use: %v", c, first, last, due, comes)
		}
		if !comes && (needed[c] || r.NextUse(d, c).Soon) {
			t.Errorf("chunk %d of groups %d to %d: needed %v, expected %v; want neither", c, first, last, needed[c], r.NextUse(d, c).Soon)
		}
		if needed[c] {
			count++
		}
	}
	if count == 0 {
		t.Error("got no chunk needed, want those that are next")
	}
}

// A gateway where ranks of some groups read prefetches the chunks at home with these groups, and no
// others.
func TestReaders_LookAheadForHomes(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.Slot, 64, 1)
	r := newReaders(t, Config{Budget: 200})
	now := begin()
	r.homeRead(d, p, 2, 0, now) // ranks 2 and 3 are group 1
	expectHomes(t, r, d, p, now, 1)
	r.homeRead(d, p, 3, 0, now)
	r.homeRead(d, p, 6, 0, now)
	expectHomes(t, r, d, p, now, 1, 3)
	if v := r.homeRead(d, p, 2, 64, now); !comesLikeDue(r, d, v) {
		t.Error("want a visit to need the chunks with a next use, and no others")
	}
	for batch := uint64(2); batch < 50; batch++ { // group 3 reads elsewhere from now on
		now = now.Add(time.Second)
		r.homeRead(d, p, 2, batch*64, now)
	}
	expectHomes(t, r, d, p, now, 1)
	for rank := range uint64(homeRanks) {
		r.homeRead(d, p, rank, 0, now)
	}
	expectHomes(t, r, d, p, now, 0, 1, 2, 3)
}

func comesLikeDue(r *Readers, d *data, v *Visit) bool {
	for c := range d.Chunks() {
		if v.ComesFor(c) == (r.NextUse(d, c).In == Never) {
			return false
		}
	}
	return true
}

// A rank with a contiguous share needs every chunk, independent of the shares of other ranks.
func TestReaders_ContiguousShareNeedsAllChunks(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.Slot, 64, 1)
	r := newReaders(t, Config{Budget: 200})
	now := begin()
	r.homeRead(d, p, 2, 0, now)
	r.read(d, at(p, 0, 0, 64), now)
	expectHomes(t, r, d, p, now, 0, 1, 2, 3)
}

// A gateway of a cluster prefetches for the ranks of all gateways: owners, not homes, determine the
// chunks that it keeps.
func TestOwnersLookAheadForAllHomes(t *testing.T) {
	d := newData(400, 10)
	p := d.plan(t, shuffle.Slot, 64, 1)
	n := 1
	r := shareOf(t, &n, 200)
	now := begin()
	r.homeRead(d, p, 2, 0, now)
	expectHomes(t, r, d, p, now, 0, 1, 2, 3)
}
