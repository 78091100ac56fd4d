package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// run is one setting on its way.
type run struct {
	clock    *clock
	set      *Setting
	data     *Data
	plan     *shuffle.Plan
	gateways []*gateway
	ranks    []*rank

	course  *course
	mean    float64 // bytes of a sample
	parts   float64 // how many times as much data there is as was followed
	soon    int64   // of the memory, not thinned
	fits    bool    // all data may be in memory
	coarse  bool
	stays   bool   // what is in use stays in memory
	step    uint64 // samples of one request of all ranks together
	steps   uint64 // of an epoch, as far as it is followed
	think   []float64
	waiting int // ranks that have finished the epoch
	done    bool
	begun   time.Duration
	before  Counts
	result  Result
}

// Run predicts what becomes of a setting. The error is that of Check, of the plan, or the context's.
func Run(ctx context.Context, d *Data, s Setting) (Result, error) {
	if err := s.Check(); err != nil {
		return Result{}, err
	}
	if least := s.Least(d); s.CacheSize < least {
		return Result{}, fmt.Errorf("cache of %d bytes: two chunks and a batch, %d bytes, are the least", s.CacheSize, least)
	}
	r := &run{clock: &clock{}, result: Result{Setting: s, Bytes: d.Bytes(), Samples: d.Samples(), Epochs: make([]Epoch, 0, s.Epochs)}}
	r.fits = d.cost() <= ahead(s.CacheSize)
	r.thin(d, s)
	var err error
	if r.plan, err = shuffle.NewPlan(s.Order, r.data.First); err != nil {
		return Result{}, err
	}
	r.choose()
	store := &line{clock: r.clock, total: s.StoreRate, stream: s.StoreStream}
	if r.coarse {
		store.pieces = coarsePieces
	}
	for range s.Gateways {
		g := newGateway(r.clock, r.set, r.data, store)
		g.fits, g.coarse = r.fits, r.coarse
		if r.coarse {
			g.out.pieces = coarsePieces
		}
		r.gateways = append(r.gateways, g)
	}
	r.mean = float64(r.data.Bytes()) / float64(max(r.plan.Samples(), 1))
	r.begin(0)
	for n := 0; !r.done && r.clock.step(); n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
	}
	if !r.done {
		return Result{}, fmt.Errorf("the model came to a stand in epoch %d after %v", len(r.result.Epochs), r.clock.now)
	}
	for _, g := range r.gateways {
		r.result.Peak = max(r.result.Peak, g.memory.peak)
	}
	r.thicken()
	return r.result, nil
}

// begin starts an epoch: all ranks together.
func (r *run) begin(number int) {
	c := &course{epoch: r.plan.Epoch(uint64(number)), stays: r.stays}
	if r.coarse {
		for span := range c.epoch.Spans(0) {
			c.spans = append(c.spans, span)
		}
	}
	r.course, r.begun, r.before, r.waiting = c, r.clock.now, r.total(), 0
	r.result.Epochs = append(r.result.Epochs, Epoch{Ranks: make([]Rank, len(r.ranks))})
	for _, k := range r.ranks {
		k.start()
	}
}

// total adds the counts of the gateways up.
func (r *run) total() (c Counts) {
	for _, g := range r.gateways {
		c.add(g.count, 1)
	}
	return c
}

// arrived notes that a rank has finished the epoch; the last one ends it.
func (r *run) arrived() {
	if r.waiting++; r.waiting < len(r.ranks) {
		return
	}
	e := &r.result.Epochs[len(r.result.Epochs)-1]
	e.Time = r.clock.now - r.begun
	e.Counts = r.total()
	e.add(r.before, -1)
	r.extrapolate(e)
	if len(r.result.Epochs) == r.set.Epochs {
		r.done = true
		return
	}
	r.begin(len(r.result.Epochs))
}
