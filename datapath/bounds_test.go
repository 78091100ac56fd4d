package datapath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// TestPath_HoldsBodiesUpToItsBudget checks that a body may take the whole budget except the memory
// to decode in. A larger body is rejected with an error that contains all the numbers. Gaps between
// samples get an eighth only if that also fits.
func TestPath_HoldsBodiesUpToItsBudget(t *testing.T) {
	const total = 1 << 20
	p := newPath(t, Config{Budget: bud(total)})
	fits := func(n int64) bool { return chunkcache.Cost(n)+chunkcache.Cost(4096) <= total }
	largest := int64(total)
	for !fits(largest) {
		largest--
	}
	for name, c := range map[string]struct{ decoding, most int64 }{"plain": {0, total}, "compressed": {4096, largest}} {
		p.decoding.size.Store(c.decoding)
		if !p.holds(c.most) || p.couldHold(c.most) != nil {
			t.Errorf("%s: got a body of %d bytes refused, want it held", name, c.most)
		}
		err := p.couldHold(c.most + 1)
		if p.holds(c.most+1) || !errors.Is(err, budget.ErrTooLarge) {
			t.Errorf("%s: got %v for a byte more, want %v", name, err, budget.ErrTooLarge)
		}
		if want := fmt.Sprintf("read a batch of %d bytes with a budget of %d, of which %d are to decode in: ", c.most+1, total, c.decoding); err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %q, want %q", name, err, want)
		}
		if n := c.most / 9 * 8; p.gaps(n) != n/8 {
			t.Errorf("%s: got %d bytes for the gaps of %d, want an eighth more", name, p.gaps(n), n)
		}
		if n := c.most - 8; p.gaps(n) != 0 {
			t.Errorf("%s: got %d bytes for the gaps of %d, want none", name, p.gaps(n), n)
		}
	}
	p.decoding.size.Store(0)
}

// TestRoom_GoesWithItsLastHolder checks that memory is freed with its last holder, and shrinks only
// if it has a single holder.
func TestRoom_GoesWithItsLastHolder(t *testing.T) {
	p := newPath(t, Config{Budget: bud(4 << 20)})
	r, err := p.room(t.Context(), 1<<20, false)
	must(t, err)
	if len(r.bytes) != 1<<20 {
		t.Fatalf("got %d bytes, want %d", len(r.bytes), 1<<20)
	}
	all := p.budget.InUse()
	second := r.hold()
	if r.shrink(1000); p.budget.InUse() != all {
		t.Error("got memory given back that another holder needs")
	}
	second.close()
	if p.cache.Free() != 0 || p.budget.InUse() != all {
		t.Error("got memory free that is still held")
	}
	r.shrink(1000)
	if got := p.budget.InUse(); got >= all/2 {
		t.Errorf("got %d bytes in use for 1000, want fewer", got)
	}
	r.close()
	if got := p.budget.InUse() - p.cache.Free(); got != 0 {
		t.Errorf("got %d bytes left, want none", got)
	}
	var none room
	none.hold().close()
	none.shrink(1)
	full, err := p.budget.Reserve(t.Context(), p.budget.Total())
	must(t, err)
	defer full.Release()
	if r, err := p.room(t.Context(), 1, false); !errors.Is(err, chunkcache.ErrNoRoom) || r.own != nil {
		t.Errorf("got %v, want %v", err, chunkcache.ErrNoRoom)
	}
	if release, ok := p.TryReserve(1); ok || release != nil {
		t.Error("got a byte of a full budget")
	}
}

// TestTally_TiersAddUp checks that memory is assigned the rest of the bytes, tiers without bytes
// are left out, and the last tier is assigned the wait.
func TestTally_TiersAddUp(t *testing.T) {
	for _, c := range []struct {
		came tally
		want string
	}{
		{tally{}, "memory 100 1s"},
		{tally{disk: 10}, "memory 90 0s, disk 10 1s"},
		{tally{peer: 20}, "memory 80 0s, peer 20 1s"},
		{tally{store: 100}, "memory 0 0s, store 100 1s"},
		{tally{10, 20, 30}, "memory 40 0s, disk 10 0s, peer 20 0s, store 30 1s"},
	} {
		sum := tally{}
		sum.add(tally{disk: c.came.disk})
		sum.add(tally{peer: c.came.peer, store: c.came.store})
		var got []string
		for _, tier := range sum.tiers(100, time.Second) {
			got = append(got, fmt.Sprintf("%s %d %v", tier.Tier, tier.Bytes, tier.Wait))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%+v: got %s, want %s", c.came, s, c.want)
		}
	}
}

// TestPartOf_HalvesTheTimeLeft checks that a query gets half of the remaining time of its request.
// It gets no deadline if the request has none.
func TestPartOf_HalvesTheTimeLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		whole, end := context.WithTimeout(context.Background(), time.Minute)
		defer end()
		part, cancel := partOf(whole)
		if until, ok := part.Deadline(); !ok || time.Until(until) != 30*time.Second {
			t.Errorf("got %v of a minute, want half of it", time.Until(until))
		}
		if cancel(); part.Err() == nil || whole.Err() != nil {
			t.Error("got the request ended, or its part still open")
		}
		endless, cancel := partOf(context.Background())
		if _, ok := endless.Deadline(); ok {
			t.Error("got a deadline for a request without one")
		}
		if cancel(); endless.Err() == nil {
			t.Error("got a part still open that has ended")
		}
	})
}

// TestOwners_ChoiceAsksFewMembers checks the order of members: the owner first, then the next
// choices while there is time, and no more than three in total.
func TestOwners_ChoiceAsksFewMembers(t *testing.T) {
	d := newDataset(t, 1, same(4, 900), 4, 8<<10)
	p := newPath(t, Config{Budget: bud(1 << 20), Peers: &scripted{dataset: d}})
	s := p.Open(d.index, d.store, "set/")
	s.Share("set")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx   context.Context
		asked []string
		want  string
	}{
		{t.Context(), nil, "a"}, {ended, nil, "a"}, {t.Context(), []string{"a"}, "b"}, {t.Context(), []string{"a", "b"}, "c"},
		{ended, []string{"a"}, ""}, {t.Context(), []string{"x", "y", "z"}, ""}, {t.Context(), []string{"a", "b", "c"}, ""},
	} {
		if got := (ownersTier{batch: &request{asked: c.asked}}).choice(c.ctx, s, 0); got != c.want {
			t.Errorf("after %q: got %q asked, want %q", c.asked, got, c.want)
		}
	}
}

// TestBatch_SendsReaderToPeers checks that peers receive the plan's parameters, the epoch and the
// position, and a think time of at most an hour.
func TestBatch_SendsReaderToPeers(t *testing.T) {
	d := newDataset(t, 1, same(40, 900), 10, 8<<10)
	plan := d.plan(t, shuffle.Full, 0)
	at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(3), First: 10, End: 20, BatchSize: 10}
	for think, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Hour, 25 * time.Hour: time.Hour} {
		b := &request{}
		b.forPeers(at, &visit{Visit: &lookahead.Visit{Think: think}})
		r := b.reader
		if r.Params != plan.Params() || r.Epoch != 3 || r.First != 10 || r.End != 20 || r.BatchSize != 10 || r.Think != want {
			t.Errorf("got %+v, want samples 10 to 20 of epoch 3 and a pause of %v", r, want)
		}
		if r.Plan != nil || r.Cursor.Epoch != nil {
			t.Error("got a plan sent to peers, want only its parameters")
		}
	}
}

// TestPath_FitsCountsDatasetsReadLately checks that the chunks of all datasets read within the last
// half minute are counted together, and those of other datasets are not.
func TestPath_FitsCountsDatasetsReadLately(t *testing.T) {
	d := newDataset(t, 1, same(40, 900), 10, 8<<10)
	var cost int64
	for i := range d.index.Chunks() {
		cost += chunkcache.Cost(d.index.Chunk(i).Length)
	}
	p := newPath(t, Config{Budget: bud(BudgetFor(cost))})
	if room := policy.Ahead(p.budget.Total()); room < cost || room > cost+7 {
		t.Fatalf("got a budget with room for %d bytes, want %d", room, cost)
	}
	a, b := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		s    *Source
		at   time.Duration
		want bool
	}{{a, 0, true}, {a, time.Second, true}, {b, together, false}, {b, together + time.Second, true}, {a, together + time.Second, false}} {
		if got := p.fits(c.s, now.Add(c.at)); got != c.want {
			t.Errorf("dataset %d after %v: got that all fits: %v, want %v", c.s.place, c.at, got, c.want)
		}
	}
}

// TestPath_NewTakesDefaults checks the defaults: a part of 16 MiB and at least twelve places.
func TestPath_NewTakesDefaults(t *testing.T) {
	for _, c := range []struct {
		cfg           Config
		part          int64
		places, lone  int
		climbs, peers bool
	}{
		{Config{}, DefaultPartSize, DefaultFetchers, DefaultFetchers - 1, true, false},
		{Config{PartSize: -1, Fetchers: -1, Peers: alone{}}, DefaultPartSize, DefaultFetchers, DefaultFetchers - 1, true, true},
		{Config{PartSize: 1, Fetchers: 1}, 1, 1, 1, false, false},
		{Config{PartSize: 1 << 20, Fetchers: 3}, 1 << 20, 3, 2, false, false},
	} {
		c.cfg.Budget = bud(1 << 20)
		p := newPath(t, c.cfg)
		if p.cfg.PartSize != c.part || p.gate.places() != c.places || p.first.places() != c.places || p.lone.places() != c.lone || (p.gate.climb != nil) != c.climbs {
			t.Errorf("got parts of %d bytes, %d, %d and %d places, climbs: %v; want %+v",
				p.cfg.PartSize, p.gate.places(), p.first.places(), p.lone.places(), p.gate.climb != nil, c)
		}
		_, asks := p.tiers.(*formers)
		if asks != c.peers {
			t.Errorf("got former owners asked: %v, want %v", asks, c.peers)
		}
	}
	for total, most := range map[int64]int{1 << 20: DefaultFetchers, 1 << 30: 44, 1 << 40: mostPlaces} {
		p := newPath(t, Config{Budget: bud(total)})
		if p.gate.climb.most != most || p.gate.climb.least != leastPlaces {
			t.Errorf("budget of %d: got %d to %d places, want %d to %d", total, p.gate.climb.least, p.gate.climb.most, leastPlaces, most)
		}
	}
}

// TestPath_SharedAsFindsTheLatest checks that peers get the dataset with the given name and
// generation that was opened last and is not closed.
func TestPath_SharedAsFindsTheLatest(t *testing.T) {
	d := newDataset(t, 1, same(4, 900), 4, 8<<10)
	generation := d.index.Generation()
	p := newPath(t, Config{Budget: bud(1 << 20), Peers: alone{}})
	older, newer, unshared := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	older.Share("set")
	newer.Share("set")
	defer unshared.Close()
	for name, c := range map[string]struct {
		as, generation string
		want           *Source
	}{
		"latest": {"set", generation, newer}, "another name": {"sets", generation, nil}, "another generation": {"set", generation + "0", nil},
	} {
		got := p.sharedAs(c.as, c.generation)
		if got != c.want {
			t.Errorf("%s: got another source", name)
		}
		if got != nil {
			got.leave()
		}
	}
	newer.Close()
	if got := p.sharedAs("set", generation); got != older {
		t.Error("got another source than the one that is still open")
	} else {
		got.leave()
	}
	older.Close()
	_, err := p.answer(t.Context(), &peer.Query{Dataset: "set", Generation: generation})
	if !errors.Is(err, peer.ErrNotServed) || !strings.Contains(err.Error(), `"set"`) || !strings.Contains(err.Error(), generation) {
		t.Errorf("got %v, want %v with the name and the generation", err, peer.ErrNotServed)
	}
}
