package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Bounds of what is followed sample by sample: beyond them chunk by chunk, and a full order in part.
const (
	mostSamples  = 6 << 20 // of all epochs
	mostBatches  = 1 << 20 // of all epochs and ranks
	coarsePieces = 2       // of a transfer
	coarseRanks  = 4       // of a gateway
	coarseSteps  = 25_000  // of an epoch, about, where what is in use does not stay in memory
	coarseAhead  = 8       // chunks that one step goes on by, of the 16 that are fetched ahead
	fullSamples  = 1 << 20 // of an epoch
	mostChunks   = 1 << 17 // of all epochs; of more, a part stands for all
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
	fits := d.cost() <= ahead(s.CacheSize)
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
		g.fits, g.coarse = fits, r.coarse
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

// thin follows a part of data of very many chunks. The memory for what readers come for soon stays; what lies
// beyond it is a part of its size, like the data.
func (r *run) thin(d *Data, s Setting) {
	k := (len(d.Chunks)*s.Epochs + mostChunks - 1) / mostChunks
	r.data, r.set, r.parts = d.thin(k), &s, 1
	if k <= 1 {
		return
	}
	r.parts = float64(r.result.Bytes) / float64(r.data.Bytes())
	if soon := s.Wanted(d) / aheadTenths * 10; s.CacheSize > soon {
		r.soon = soon
		s.CacheSize = soon + int64(float64(s.CacheSize-soon)/r.parts)
	}
	s.DiskSize = int64(float64(s.DiskSize) / r.parts)
	r.say("1 chunk in %d was followed and stands for all", k)
}

// thicken makes the figures of a part those of all.
func (r *run) thicken() {
	for i := range r.result.Epochs {
		r.result.Epochs[i].scale(r.parts)
	}
	if r.result.Peak > r.soon {
		r.result.Peak = r.soon + int64(float64(r.result.Peak-r.soon)*r.parts)
	}
}

// say notes how something was followed less finely.
func (r *run) say(format string, args ...any) {
	if r.result.Coarse != "" {
		r.result.Coarse += "; "
	}
	r.result.Coarse += fmt.Sprintf(format, args...)
}

// choose decides how finely the epochs are followed, and makes the ranks.
func (r *run) choose() {
	s, samples := r.set, r.plan.Samples()
	batches := shuffle.Batching{Samples: samples, BatchSize: s.BatchSize, Tail: shuffle.Short}.Batches()
	n := s.Ranks
	r.step, r.steps = s.BatchSize, batches
	large := samples*uint64(s.Epochs) > mostSamples || batches*uint64(s.Epochs*n) > mostBatches
	switch {
	case !large:
	case s.Order.Shuffle == shuffle.Full:
		r.steps = min(batches, max(fullSamples/s.BatchSize, 64))
		if r.steps < batches {
			r.say("the first %d of %d batches of each epoch were followed, and the rest goes on at the pace of their last quarter", r.steps, batches)
		}
	default:
		r.coarse = true
		n = min(n, coarseRanks*s.Gateways)
		joined := max(r.coarseStep()/s.BatchSize, 1)
		r.step = joined * s.BatchSize
		r.steps = (batches + joined - 1) / joined
		r.say("followed chunk by chunk, not sample by sample, %d batches at a time, the %d ranks as %d", joined, s.Ranks, n)
	}
	r.think = make([]float64, n)
	_, speed := s.paces(n)
	for i := range r.think {
		r.think[i] = s.pace(i, n) * speed / s.Rate // seconds a sample: together they consume Rate
	}
	for i := range n {
		r.ranks = append(r.ranks, &rank{run: r, number: i})
	}
}

// coarseStep is how many samples a step goes on by where samples are not followed: less than what is fetched ahead, or
// readers would wait for what a gateway fetches while they think.
func (r *run) coarseStep() uint64 {
	samples, chunks := r.plan.Samples(), uint64(len(r.data.Chunks))
	r.stays = ahead(r.set.CacheSize) >= r.set.Wanted(r.data)
	if !r.stays {
		return samples / coarseSteps
	}
	n := uint64(coarseAhead)
	if r.set.Order.Shuffle == shuffle.Window {
		n = max(n, r.set.Order.Window/4)
	}
	return samples / chunks * n
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

// extrapolate adds what of a full order was not followed, at the pace of the last quarter of what was. Where all data
// fits into memory the rest is there by then.
func (r *run) extrapolate(e *Epoch) {
	all := (r.plan.Samples() + r.step - 1) / r.step
	if r.steps == all {
		return
	}
	pace := float64(r.clock.now-e.quarter) / float64(r.steps-r.steps*3/4)
	more := float64(all-r.steps) / float64(r.steps)
	e.Time += time.Duration(pace * float64(all-r.steps))
	served := float64(e.Served) * more
	if !r.gateways[0].fits {
		e.Counts.scale(1 + more)
	} else {
		e.Served += int64(served)
	}
	for i := range e.Ranks {
		k := &e.Ranks[i]
		k.Stall += time.Duration(float64(k.late) * 4 * more)
	}
}

// rank is one reader: it computes on one batch after another, and asks for as many ahead as ReadAhead says.
type rank struct {
	run     *run
	number  int
	gateway *gateway
	pace    pace
	samples []uint64

	asked    uint64 // steps asked for
	at       uint64 // the step that it computes on, or waits for
	there    []bool // from at on
	thinking bool
	since    time.Duration // when it began to wait
}

// start begins an epoch.
func (k *rank) start() {
	r := k.run
	k.gateway = r.gateways[k.number*len(r.gateways)/len(r.ranks)]
	k.asked, k.at, k.pace, k.there = 0, 0, pace{}, k.there[:0]
	k.thinking, k.since = false, r.clock.now
	k.ask()
	k.compute()
}

// ask asks for as many batches as it may.
func (k *rank) ask() {
	for k.asked < k.run.steps && k.asked <= k.at+uint64(k.run.set.ReadAhead) {
		step := k.asked
		k.asked++
		k.there = append(k.there, false)
		k.request(step)
	}
}

// share is what the rank consumes of a step.
func (k *rank) share(step uint64) shuffle.Share {
	r := k.run
	b := shuffle.Batching{Samples: r.plan.Samples(), BatchSize: r.step, Tail: shuffle.Short}
	return b.Share(step, uint64(k.number), uint64(len(r.ranks)))
}

// request asks for one batch.
func (k *rank) request(step uint64) {
	r := k.run
	lo := step * r.step
	hi := min(lo+r.step, r.plan.Samples())
	share := k.share(step)
	arrived := func() {
		k.there[step-k.at] = true
		k.compute()
	}
	var uses []use
	if r.coarse {
		uses = r.course.usesBetween(&k.pace, lo, hi, len(r.ranks))
	} else {
		k.samples = r.course.epoch.AppendShare(k.samples[:0:0], share) // the uses keep them
		uses = r.data.usesOf(k.samples)
	}
	if share.Count == 0 {
		r.clock.after(0, arrived)
		return
	}
	q := &request{
		at: shuffle.Cursor{
			Plan: r.plan, Epoch: r.course.epoch, First: lo, End: hi, BatchSize: r.step,
			Rank: uint64(k.number), WorldSize: uint64(len(r.ranks)),
		},
		uses: uses,
	}
	if r.coarse {
		q.bytes = int64(r.mean * float64(share.Count))
	}
	q.ready = func() {
		k.gateway.out.send(q.bytes, func() {
			k.gateway.close(q)
			arrived()
		})
	}
	k.gateway.read(q)
}

// compute begins the next batch if it is there and the last one is done.
func (k *rank) compute() {
	r := k.run
	if k.thinking || len(k.there) == 0 || !k.there[0] {
		return
	}
	late := k.at >= r.steps*3/4
	e := &r.result.Epochs[len(r.result.Epochs)-1]
	if late && e.quarter == 0 {
		e.quarter = r.clock.now
	}
	e.Ranks[k.number].waited(r.clock.now-k.since, late)
	k.thinking = true
	r.clock.after(seconds(r.think[k.number]*float64(k.share(k.at).Count)), func() {
		k.thinking, k.since = false, r.clock.now
		k.at++
		k.there = k.there[1:]
		if k.at == r.steps {
			r.arrived()
			return
		}
		k.ask()
		k.compute()
	})
}
