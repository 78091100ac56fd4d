//go:build !race

package simulate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/shuffle"
)

// fleet returns a setting of one cluster. Its gateways together have memory for cache times the
// data.
func fleet(d *Data, gateways int, cache float64) Setting {
	s := plain(d, cache/float64(gateways))
	s.Order = shuffle.Params{Shuffle: shuffle.Slot, Window: 32, Seed: 1}
	s.Gateways, s.Ranks, s.ReadAhead, s.Epochs = gateways, 2*gateways, 2, 2
	return s
}

// quarter returns limits under which about one of four samples represents the others of its chunk.
func quarter(d *Data, s Setting) limits {
	most := standard()
	most.samples = d.Samples()*uint64(s.Epochs) - 1
	return most
}

// TestClusterHoldsMoreThanOne checks that several gateways, each with room for a part of the data,
// hold all of it together. Each chunk is read once, and of p gateways, (p-1)/p of the bytes cross
// the links.
func TestClusterHoldsMoreThanOne(t *testing.T) {
	d := uniform(t, 256*64, 64, 4096)
	for _, p := range []int{1, 2, 4, 8} {
		s := fleet(d, p, 1.8)
		r := predict(t, d, s)
		first, later := &r.Epochs[0], r.Later()
		if got := float64(first.StoreBytes) / float64(d.Bytes()); got > 1.01 || got < .99 {
			t.Errorf("%d gateways, epoch 0: got %.3f of the data from the store, want all of it, once", p, got)
		}
		if later.StoreBytes != 0 {
			t.Errorf("%d gateways: got %d bytes from the store in the later epoch, want none: all fits", p, later.StoreBytes)
		}
		want := float64(p-1) / float64(p)
		if got := float64(later.PeerBytes) / float64(d.Bytes()); math.Abs(got-want) > .02 {
			t.Errorf("%d gateways: got %.3f of the data over the links, want %.3f", p, got, want)
		}
	}
}

// TestLocality_SavesOnlyWithoutCluster checks locality with and without a cluster. Without one,
// each gateway holds the chunks at home with its ranks, so together they read each byte once, and
// nothing crosses a link. Moved samples are read from the store again. In a cluster, owners do not
// follow homes, so locality saves no transfers.
func TestLocality_SavesOnlyWithoutCluster(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	for _, name := range []string{shuffle.Slot, shuffle.Window} {
		s := fleet(d, 4, 2)
		s.Order.Shuffle, s.Sharing = name, shuffle.Locality
		if name == shuffle.Window {
			s.Order.Strata = 32
		}
		r := predict(t, d, s)
		if got := float64(r.Later().PeerBytes) / float64(d.Bytes()); got < .65 || got > .85 {
			t.Errorf("%s in a cluster: got %.3f of the data over the links, want 3 of 4", name, got)
		}
		s.Alone = true
		r = predict(t, d, s)
		if got := r.Later().PeerBytes; got != 0 {
			t.Errorf("%s: got %d bytes between gateways that share nothing, want none", name, got)
		}
		if got := float64(r.Epochs[0].StoreBytes) / float64(d.Bytes()); got > 1.02+r.Moved {
			t.Errorf("%s, epoch 0: got %.3f of the data from the store, want all of it once and the moved part, %.3f", name, got, r.Moved)
		}
		if got := float64(r.Later().StoreBytes) / float64(d.Bytes()); got > r.Moved+.03 || r.Moved > .12 {
			t.Errorf("%s: got %.3f of the data from the store in a later epoch, want at most the moved part, %.3f", name, got, r.Moved)
		}
		s.Ranks = 33
		if _, err := Run(t.Context(), d, s); err == nil {
			t.Errorf("%s: got a result for 33 ranks and 32 homes, want an error", name)
		}
	}
}

// fullest returns the share of the gateway that owns most, relative to an equal share: a hash does
// not divide 512 chunks evenly.
func fullest(d *Data, p int) float64 {
	owned := make([]float64, p)
	for _, i := range owners(d, p) {
		owned[i]++
	}
	return slices.Max(owned) * float64(p) / float64(len(d.Chunks))
}

// TestLinkBinds checks that answers to peers and answers to ranks share a link, unless ranks are
// near.
func TestLinkBinds(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	s := fleet(d, 4, 2)
	s.Rate, s.LinkRate = 1e6, 20e6
	far := predict(t, d, s)
	s.RanksNear = true
	near := predict(t, d, s)
	each := float64(d.Bytes()) / 4
	for _, c := range []struct {
		name string
		r    Result
		want float64 // seconds
	}{{"ranks far", far, each * (1 + .75*fullest(d, 4)) / s.LinkRate}, {"ranks near", near, each * .75 * fullest(d, 4) / s.LinkRate}} {
		e := c.r.Later()
		if b := c.r.Bounds(e)[0]; b.Name != "link" || math.Abs(b.Time.Seconds()/c.want-1) > .1 || e.Time < b.Time || float64(e.Time) > 1.25*float64(b.Time) {
			t.Errorf("%s: got %v, bound by %s with %v (%s), want the link with %.3g s", c.name, e.Time, b.Name, b.Time, b.Sum, c.want)
		}
	}
}

// TestLinksWorkWhileRanksTrain checks that the next batches are requested in the background. So an
// epoch takes max(D/(pV), D (p-1)/(p Rc)) and not the sum, for p gateways whose ranks train V
// samples per second, and links of Rc for all p together. The order mixes half of the chunks at a
// time. With few chunks, one owner would sometimes have many of them, and all ranks would wait for
// its link.
func TestLinksWorkWhileRanksTrain(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	const p, link = 4, 10e6
	bytes := float64(d.Bytes()) * (p - 1) / p
	for _, readAhead := range []int{0, 2} {
		for _, share := range []float64{.25, 1, 4} { // the time that ranks train, relative to the time that links need
			s := fleet(d, p, 2)
			s.LinkRate, s.RanksNear, s.ReadAhead, s.Order.Window = link, true, readAhead, 256
			s.Rate = float64(d.Samples()) / (share * bytes / (p * link))
			for _, coarse := range []bool{false, true} {
				most := standard()
				if coarse {
					most = quarter(d, s)
				}
				r, err := follow(t.Context(), d, s, most)
				if err != nil {
					t.Fatal(err)
				}
				want := max(float64(d.Samples())/s.Rate, fullest(d, p)*bytes/(p*link))
				within := .1
				if coarse {
					within = .2 // a coarse simulation has steps of several batches
				}
				if got := r.Later().Time.Seconds(); math.Abs(got/want-1) > within {
					t.Errorf("coarse %v, %d batches asked for ahead, training %g of the links' time: got %.4g s, want about %.4g", coarse, readAhead, share, got, want)
				}
			}
		}
	}
}

// TestReadAhead_YieldsShortMemoryToBatch checks that, with little memory, read-ahead does not make
// owners load chunks before the chunks that a batch waits for. Such chunks would be evicted before
// their use, and their samples would be read one by one.
func TestReadAhead_YieldsShortMemoryToBatch(t *testing.T) {
	d := uniform(t, 4096*16, 16, 4096)
	s := fleet(d, 20, .5)
	s.Order.Window, s.BatchSize, s.Rate = 128, 2048, 2e5
	if got := predict(t, d, s).Epochs[1]; got.Carried == 0 || got.Ranges > 400 {
		t.Errorf("got %d samples read ahead and %d read one by one, want some, and 400 at most", got.Carried, got.Ranges)
	}
}

// TestFewStandForMany checks that a coarse simulation, in which some gateways represent all, has
// about the same result as one that simulates each sample.
func TestFewStandForMany(t *testing.T) {
	const gateways = 20
	d := uniform(t, 4096*16, 16, 4096)
	for n, c := range []struct {
		cache  float64
		change func(*Setting)
	}{
		{2, func(*Setting) {}},
		{.5, func(*Setting) {}},
		{2, func(s *Setting) { s.LinkRate = 8e6 }},
		{2, func(s *Setting) { s.Sharing, s.Alone = shuffle.Locality, true }},
		{2, func(s *Setting) { s.Rate = 3e4 }},
		{2, func(s *Setting) { s.Order.Shuffle, s.Order.Strata = shuffle.Window, 64 }},
	} {
		s := fleet(d, gateways, c.cache)
		s.Order.Window, s.BatchSize, s.Rate = 128, 2048, 2e5
		c.change(&s)
		fine := predict(t, d, s)
		coarse, err := follow(t.Context(), d, s, quarter(d, s))
		if err != nil {
			t.Fatal(err)
		}
		if fine.Coarse != "" || coarse.Coarse == "" {
			t.Fatalf("got %q and %q, want only the second to be coarse", fine.Coarse, coarse.Coarse)
		}
		for i := range fine.Epochs {
			a, b := &fine.Epochs[i], &coarse.Epochs[i]
			name := fmt.Sprintf("case %d, epoch %d", n, i)
			if off := float64(b.StoreBytes-a.StoreBytes) / float64(d.Bytes()); math.Abs(off) > .15 {
				t.Errorf("%s: got %d bytes of the store, want about %d", name, b.StoreBytes, a.StoreBytes)
			}
			if off := float64(b.PeerBytes-a.PeerBytes) / float64(d.Bytes()); math.Abs(off) > .1 {
				t.Errorf("%s: got %d bytes of peers, want about %d", name, b.PeerBytes, a.PeerBytes)
			}
			if off := float64(b.Busiest)/float64(max(a.Busiest, 1)) - 1; math.Abs(off) > .1 {
				t.Errorf("%s: got %d bytes over the busiest link, want about %d", name, b.Busiest, a.Busiest)
			}
			if off := float64(b.Time)/float64(a.Time) - 1; math.Abs(off) > .2 { // read-ahead changes the order of reads
				t.Errorf("%s: got %v, want about %v", name, b.Time, a.Time)
			}
			if off := float64(b.PeerReads)/float64(max(a.PeerReads, 1)) - 1; math.Abs(off) > .3 && a.PeerReads > 1000 {
				t.Errorf("%s: got %d questions, want about %d", name, b.PeerReads, a.PeerReads)
			}
		}
	}
}

// TestFleetOfAThousand checks that the first epoch takes as long as the store needs, and the next
// one as long as the job needs.
func TestFleetOfAThousand(t *testing.T) {
	d := uniform(t, 1e9, 1000, 65536)
	s := fleet(d, 1000, 3)
	s.Ranks, s.BatchSize, s.Rate, s.StoreRate, s.FirstByte = 10_000, 320_000, 2e7, 200e9, 20*time.Millisecond
	s.Order.Window, s.LinkRate, s.Fetchers = 4096, 12.5e9, 16
	r := predict(t, d, s)
	for i, want := range []float64{float64(d.Bytes()) / s.StoreRate, 1e9 / s.Rate} {
		if got := r.Epochs[i].Time.Seconds(); got < want*.999 || got > want*1.1 {
			t.Errorf("epoch %d: got %.4g s, want just above %.4g", i, got, want)
		}
	}
	if got := float64(r.Later().PeerBytes) / float64(d.Bytes()); got < .97 || got > 1 {
		t.Errorf("got %.3f of the data over the links, want 999 of 1000", got)
	}
}

// TestWiderLinksAreNeverSlower checks that wider links are never slower, except for effects of
// timing.
func TestWiderLinksAreNeverSlower(t *testing.T) {
	d := uniform(t, 128*8, 8, 4096)
	rapid.Check(t, func(t *rapid.T) {
		s := fleet(d, rapid.IntRange(2, 6).Draw(t, "gateways"), float64(rapid.IntRange(3, 25).Draw(t, "cache"))/10)
		s.RanksNear = rapid.Bool().Draw(t, "ranks near")
		s.CacheSize = max(s.CacheSize, s.Least(d), 2<<20)
		var before time.Duration
		for _, rate := range []float64{1e6, 4e6, 16e6, 64e6, 0} {
			s.LinkRate = rate
			r, err := Run(t.Context(), d, s)
			if err != nil {
				t.Fatal(err)
			}
			var took time.Duration
			for _, e := range r.Epochs {
				took += e.Time
			}
			if before > 0 && took > before*105/100 {
				t.Errorf("links of %g bytes a second: got %v, want no more than with narrower ones, %v", rate, took, before)
			}
			before = took
		}
	})
}

// TestEveryByteComesFromSomewhere checks that the ranks' bytes are the sum of the bytes from the
// links and those that their own gateways had or read.
func TestEveryByteComesFromSomewhere(t *testing.T) {
	d := uniform(t, 512*16, 16, 4096)
	for p := 1; p <= 8; p *= 2 {
		s := fleet(d, p, 3)
		r := predict(t, d, s)
		for i := range r.Epochs {
			e := &r.Epochs[i]
			memory, disk, store := e.Tiers()
			if got := memory + disk + store; math.Abs(got-1) > .001 {
				t.Errorf("%d gateways, epoch %d: got %.4f of the bytes by tiers, want all, once", p, i, got)
			}
			if e.LinkOut != e.Served+e.PeerBytes {
				t.Errorf("%d gateways, epoch %d: got %d bytes out of the links, want %d to ranks and %d to peers", p, i, e.LinkOut, e.Served, e.PeerBytes)
			}
		}
	}
}
