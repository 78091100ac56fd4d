package simulate

import (
	"math"

	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// fleetGateways is how many gateways of a cluster are followed where chunks are followed instead of samples.
const fleetGateways = 16

// part follows some of very many gateways. A cluster looks like itself: so many of its gateways, with that part of the data, of the lanes, of
// the ranks and of the store's bandwidth, each with the memory, the disk, the link and the fetchers that it has, take as long as all of
// them. Only less of what a rank needs is another gateway's; that part goes over the links all the same.
func (r *run) part(d *Data, s Setting) (*Data, Setting) {
	r.fleet = 1
	n, all := s.Gateways, s.Gateways
	if !r.coarse || s.Alone || n <= fleetGateways {
		return d, s
	}
	n = fleetGateways
	for n > fleetGateways/2 && all%n != 0 {
		n--
	}
	if all%n != 0 {
		n = fleetGateways
	}
	by := float64(n) / float64(all)
	of := func(x uint64) uint64 { return max(uint64(math.Round(float64(x)*by)), 1) }
	t := d.thin(n, all)
	r.fleet = float64(d.Bytes()) / float64(t.Bytes())
	s.Gateways, s.Ranks = n, max(int(of(uint64(s.Ranks))), n)
	if k := s.Order.Strata; k > 0 {
		s.Order.Strata, s.Order.Window = of(k), of(k)*(s.Order.Window/k)
	} else if s.Order.Window > 0 {
		s.Order.Window = of(s.Order.Window)
	}
	s.BatchSize, s.Rate, s.StoreRate = max(of(s.BatchSize), uint64(s.Ranks)), s.Rate*by, s.StoreRate*by
	r.say("%d gateways were followed and stand for all, with as large a part of the data, the ranks and the store", n)
	return t, s
}

// join makes the gateways one cluster, or each one of its own.
func (r *run) join() {
	s := r.set
	if s.Alone {
		for _, g := range r.gateways {
			g.cluster = &cluster{members: []*gateway{g}}
		}
		return
	}
	c := &cluster{members: r.gateways, owners: owners(r.data, s.Gateways)}
	if real := r.result.Setting.Gateways; real > s.Gateways {
		c.beyond = 1 - float64(s.Gateways)/float64(real)
	}
	for _, g := range r.gateways {
		g.cluster = c
	}
}

// newCourse begins to follow an epoch.
func (r *run) newCourse(number int) *course {
	c := &course{epoch: r.plan.Epoch(uint64(number)), sharing: r.set.Sharing, stays: r.stays}
	if !r.coarse {
		return c
	}
	if c.sharing == shuffle.Locality {
		c.homes = make([][]shuffle.Span, len(r.ranks))
	}
	for span := range c.epoch.Spans(0) {
		if c.homes == nil {
			c.spans = append(c.spans, span)
			continue
		}
		place, of := r.plan.Home(span.Chunk)
		home := place * uint64(len(r.ranks)) / of
		c.homes[home] = append(c.homes[home], span)
	}
	return c
}

// asked estimates the questions of gateways where batches are not followed one by one: as many as the samples of a run of a rank's
// batches that others own have owners.
func (r *run) asked(e *Epoch) {
	s := &r.result.Setting
	if !r.coarse || e.PeerReads == 0 {
		return
	}
	batches := float64(shuffle.Batching{Samples: r.result.Samples, BatchSize: s.BatchSize, Tail: shuffle.Short}.Batches())
	others := float64(s.Gateways - 1)
	foreign := float64(s.BatchSize) / float64(s.Ranks) * float64(e.PeerBytes) / float64(max(e.Served, 1))
	joined := 1.
	if !s.NoReadAhead {
		l := &lookahead.Limits{Memory: s.CacheSize, Fits: r.fits}
		begun := float64(s.BatchSize) / float64(r.plan.Samples()) * float64(len(r.data.Chunks)) / float64(s.Gateways) // by a batch, of one owner
		bytes := foreign / others * (r.mean + lookahead.SampleCost)
		joined = max(min(lookahead.RunBatches, float64(l.Chunks())/begun, lookahead.QuestionBytes/bytes, float64(l.Run())/(foreign*r.mean)), 1)
	}
	asked := batches
	if joined > 1 {
		asked = 1 + (batches-1)/joined
	}
	e.PeerReads = int64(asked * float64(s.Ranks) * others * (1 - math.Pow(1-1/others, foreign*batches/asked)))
}
