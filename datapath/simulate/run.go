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

	before []Counts // of each gateway, when the epoch began

	course  *course
	mean    float64 // bytes of a sample
	parts   float64 // how many times as much data there is as was followed
	fleet   float64 // how many times as many gateways there are, with as many times the data, ranks and store
	moved   float64 // part of a rank's samples that others hold, with locality
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
	waits   []time.Duration // of the epoch, one for each batch of each rank
	result  Result
}

// Run predicts what becomes of a setting. The error is that of Check, of the plan, or the context's.
func Run(ctx context.Context, d *Data, s Setting) (Result, error) { return follow(ctx, d, s, false) }

// follow predicts what becomes of a setting, coarsely if it is large or that is asked for.
func follow(ctx context.Context, d *Data, s Setting, coarse bool) (Result, error) {
	if err := s.Check(); err != nil {
		return Result{}, err
	}
	if least := s.Least(d); s.CacheSize < least {
		return Result{}, fmt.Errorf("cache of %d bytes: two chunks and a batch, %d bytes, are the least", s.CacheSize, least)
	}
	r := &run{clock: &clock{}, result: Result{Setting: s, Bytes: d.Bytes(), Samples: d.Samples(), Epochs: make([]Epoch, 0, s.Epochs)}}
	r.fits = s.held(d) <= ahead(s.CacheSize)
	if err := s.CheckSharing(d); err != nil {
		return Result{}, err
	}
	r.coarse = coarse || s.Order.Shuffle != shuffle.Full && s.large(d)
	r.thin(r.part(d, s))
	var err error
	if r.plan, err = shuffle.NewPlan(r.set.Order, r.data.First); err != nil {
		return Result{}, err
	}
	r.choose()
	store := &line{clock: r.clock, total: r.set.StoreRate, stream: s.StoreStream}
	if r.coarse {
		store.pieces = coarsePieces
	}
	for range r.set.Gateways {
		g := newGateway(r.clock, r.set, r.data, store)
		g.fits, g.coarse, g.bodies = r.fits, r.coarse, float64(r.set.BatchSize)/float64(r.step)
		if r.coarse {
			g.out.pieces, g.up.pieces, g.down.pieces = coarsePieces, coarsePieces, coarsePieces
		}
		r.gateways = append(r.gateways, g)
	}
	r.join()
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
	r.course, r.begun, r.before, r.waiting, r.waits = r.newCourse(number), r.clock.now, r.counts(), 0, r.waits[:0]
	r.result.Epochs = append(r.result.Epochs, Epoch{Ranks: make([]Rank, len(r.ranks))})
	for _, k := range r.ranks {
		k.start()
	}
}

// counts are those of each gateway so far.
func (r *run) counts() []Counts {
	all := make([]Counts, len(r.gateways))
	for i, g := range r.gateways {
		all[i] = g.count
	}
	return all
}

// arrived notes that a rank has finished the epoch; the last one ends it.
func (r *run) arrived() {
	if r.waiting++; r.waiting < len(r.ranks) {
		return
	}
	e := &r.result.Epochs[len(r.result.Epochs)-1]
	e.Time = r.clock.now - r.begun
	for i, c := range r.counts() {
		c.add(r.before[i], -1)
		e.add(c, 1)
		e.Busiest = max(e.Busiest, c.LinkIn, c.LinkOut)
	}
	e.percentiles(r.waits)
	r.extrapolate(e)
	if len(r.result.Epochs) == r.set.Epochs {
		r.done = true
		return
	}
	r.begin(len(r.result.Epochs))
}
