package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// run is the state of one simulation.
type run struct {
	clock    *clock
	set      *Setting
	data     *Data
	plan     *shuffle.Plan
	batching shuffle.Batching
	gateways []*gateway
	ranks    []*rank

	before  []Counts // counters of each gateway at the start of the epoch
	epoch   *shuffle.Epoch
	waiting int // ranks that have finished the epoch
	done    bool
	begun   time.Duration
	waits   []time.Duration // waits in this epoch, one for each batch of each rank
	result  Result
}

// Run predicts the result of a setting. Errors are those of Check, of the plan, or the error of the
// context.
func Run(ctx context.Context, d *Data, s Setting) (Result, error) {
	return follow(ctx, d, s, standard())
}

// follow predicts the result of a setting, scaled down to the given limits.
func follow(ctx context.Context, d *Data, s Setting, most limits) (Result, error) {
	if err := s.Check(); err != nil {
		return Result{}, err
	}
	if least := s.Least(d); s.CacheSize < least {
		return Result{}, fmt.Errorf("cache of %d bytes: must be at least two chunks and a batch, %d bytes", s.CacheSize, least)
	}
	plan, err := shuffle.NewPlan(s.Order, d.First)
	if err != nil {
		return Result{}, err
	}
	result := Result{Setting: s, Bytes: d.Bytes(), Samples: d.Samples(), Epochs: make([]Epoch, 0, s.Epochs)}
	if ranks := uint64(s.Ranks); s.Sharing == shuffle.Locality {
		if err := plan.CheckSharing(ranks, ranks); err != nil {
			return Result{}, err
		}
		result.Moved = plan.Moved(shuffle.Batching{Samples: d.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short}, ranks, ranks)
	}
	q := scale(d, s, most)
	r, err := newRun(q)
	if err != nil {
		return Result{}, err
	}
	defer r.clock.stop()
	r.result = result
	r.begin(0)
	for n := 0; !r.done && r.clock.step(); n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
	}
	if !r.done {
		return Result{}, fmt.Errorf("the simulation stalled in epoch %d after %v", len(r.result.Epochs), r.clock.now)
	}
	for _, g := range r.gateways {
		r.result.Peak = max(r.result.Peak, g.memory.peak)
	}
	q.restore(&r.result)
	return r.result, nil
}

// newRun creates the gateways and ranks of a simulation.
func newRun(q *scaledQuestion) (*run, error) {
	s := &q.set
	plan, err := shuffle.NewPlan(s.Order, q.data.First)
	if err != nil {
		return nil, err
	}
	r := &run{
		clock: newClock(q.pieces()), set: s, data: q.data, plan: plan,
		batching: shuffle.Batching{Samples: plan.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short},
	}
	store := &line{total: s.StoreRate, stream: s.StoreStream}
	all := &cluster{owners: owners(q.data, s.cluster())}
	for range s.Gateways {
		g := newGateway(r.clock, q, store)
		if g.cluster = all; s.Alone {
			g.cluster = &cluster{members: []*gateway{g}}
		}
		all.members = append(all.members, g)
	}
	r.gateways = all.members
	_, speed := s.paces(s.Ranks)
	for i := range s.Ranks {
		g := r.gateways[GatewayOf(uint64(i), uint64(s.Ranks), s.Gateways)]
		k := &rank{run: r, number: i, gateway: g, think: s.pace(i, s.Ranks) * speed / s.Rate} // all ranks together consume Rate
		k.ahead.gateway = g
		g.aheads = append(g.aheads, &k.ahead)
		r.ranks = append(r.ranks, k)
	}
	return r, nil
}

// begin starts an epoch of all ranks.
func (r *run) begin(number int) {
	r.epoch, r.begun, r.before, r.waiting, r.waits = r.plan.Epoch(uint64(number)), r.clock.now, r.counts(), 0, r.waits[:0]
	r.result.Epochs = append(r.result.Epochs, Epoch{Ranks: make([]Rank, len(r.ranks))})
	for _, k := range r.ranks {
		r.clock.start(k.read)
	}
}

// counts returns the counters of each gateway so far.
func (r *run) counts() []Counts {
	all := make([]Counts, len(r.gateways))
	for i, g := range r.gateways {
		all[i] = g.count
	}
	return all
}

// arrived records that a rank has finished the epoch. The last rank ends it.
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
	if len(r.result.Epochs) == r.set.Epochs {
		r.done = true
		return
	}
	r.begin(len(r.result.Epochs))
}
