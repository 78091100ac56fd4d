package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Reservation is memory that is on the books of a budget. *budget.Reservation is one.
type Reservation interface {
	Shrink(n int64)
	Release()
}

// Plans keeps the plans, the epochs and the snapshots, subsets and quarantines that requests used last.
type Plans struct {
	memory      Memory
	cache       *cache
	weights     *objectCache[*Weights]
	subsets     *objectCache[subset]
	quarantines *objectCache[quarantine]
	cutting     chan struct{} // holds a token while a subset is worked out
}

// Memory takes memory from the budget of the process.
type Memory interface {
	// Reserve takes n bytes for a request. Few bytes may be left off the books: they are part of what a connection costs.
	Reserve(ctx context.Context, n int64) (release func(), err error)

	// Hold takes n bytes that are kept beyond a request.
	Hold(ctx context.Context, n int64) (Reservation, error)
}

// New returns plans that keep at most limit bytes of prepared epochs between requests. What requests use beyond that,
// they take from memory.
func New(limit int64, memory Memory) *Plans {
	p := &Plans{cache: newCache(limit, memory.Reserve), memory: memory, cutting: make(chan struct{}, 1)}
	p.weights = newObjectCache("snapshot", weightsBytes, openWeights, memory.Hold)
	p.subsets = newObjectCache("subset", subsetBytes, p.openSubset, memory.Hold)
	p.subsets.held, p.subsets.roomy = heldBySubset, p.cache.allowed
	p.quarantines = newObjectCache("quarantine", func(objectKey) int64 { return quarantineBytes }, p.openQuarantine, memory.Hold)
	p.quarantines.held = quarantine.bytes
	return p
}

// Allow says how many bytes of prepared epochs may be kept between requests from now on: not fewer than before.
func (p *Plans) Allow(limit int64) { p.cache.allow(limit) }

// Bytes returns what the kept plans and epochs take, estimated.
func (p *Plans) Bytes() int64 { return p.cache.size() }

// Close closes what requests have opened. No request may be in flight.
func (p *Plans) Close() error {
	return errors.Join(p.quarantines.close(), p.subsets.close(), p.weights.close())
}

// Forget lets go of all that was prepared for a dataset. No request may use it.
func (p *Plans) Forget(d *Dataset) error {
	p.cache.forgetAll(d)
	return errors.Join(p.quarantines.forget(d), p.subsets.forget(d), p.weights.forget(d))
}

// Complete finishes a plan that was decoded without a fault: it finds the split that is meant where the URL names none,
// and the number of samples of an epoch.
func (p *Plans) Complete(ctx context.Context, d *Dataset, a *address.Plan) error {
	if d.mixture != nil {
		return d.mixture.complete(a)
	}
	a.Samples = d.Index.Samples()
	if err := d.checkKept(a); err != nil {
		return err
	}
	if a.Params.Subset == "" {
		return nil
	}
	if err := d.nameSplit(ctx, &a.Params); err != nil {
		return err
	}
	var err error
	a.Samples, err = p.SubsetSamples(ctx, d, a.Params.Subset)
	return err
}

// CheckSharing refuses share=locality where the dataset has too few lanes for the homes. It reads nothing.
func (p *Plans) CheckSharing(ctx context.Context, d *Dataset, a address.Plan) error {
	if a.Sharing == shuffle.Contiguous || a.Params.Shuffle != shuffle.Slot {
		return nil
	}
	a.Params.Importance, a.Quarantine = "", "" // they do not change the lanes
	plan, _, leave, err := p.plan(ctx, d, a)
	if err != nil {
		return err
	}
	defer leave()
	return a.CheckSharing(plan)
}

// plan returns the plan of an address, what it is made with, and the function that ends its use.
func (p *Plans) plan(ctx context.Context, d *Dataset, a address.Plan) (_ *shuffle.Plan, c choice, leave func(), err error) {
	c, leaveChoice, err := p.choose(ctx, d, a)
	if err != nil {
		return nil, c, nil, err
	}
	held := Holds{leaveChoice}
	defer held.Drop()
	plan, leavePlan, err := p.cache.plan(ctx, d, a.Params, c)
	if err != nil {
		return nil, c, nil, err
	}
	held = append(held, leavePlan)
	return plan, c, held.Keep(), nil
}

// ForReader returns a plan and an epoch of it for a reader that another gateway has told of, and the function that ends
// their use. It opens nothing: a snapshot or a subset must be in use here already. It refuses a dataset or a generation
// that is not served, and parameters that no request could have.
func (p *Plans) ForReader(
	ctx context.Context, d *Dataset, params shuffle.Params, epoch uint64,
) (_ *shuffle.Plan, _ *shuffle.Epoch, leave func(), err error) {
	name := d.Name()
	if err := params.Check(); err != nil {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: %w", name, err)
	}
	c, leaveChoice, ok := p.chosen(d, params)
	if !ok {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: snapshot %.12s or subset %.12s is not open here", name, params.Importance, params.Subset)
	}
	held := Holds{leaveChoice}
	defer held.Drop()
	plan, at, leavePlan, err := p.cache.epoch(ctx, planKey{dataset: d, params: params, epoch: epoch, isEpoch: true}, c)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: %w", name, err)
	}
	held = append(held, leavePlan)
	return plan, at, held.Keep(), nil
}

// maxKept bounds the samples of a batch whose division among homes an epoch keeps.
const maxKept = 1 << 20

// BatchOrder maps the positions of one batch to samples, by its prepared plan and epoch.
type BatchOrder struct {
	shuffle.Cursor // what the tiers below are told of the reader; zero: nothing

	plan    *shuffle.Plan
	epoch   *shuffle.Epoch
	dataset *Dataset
	choice  choice
	mixed   *mixtureOrder // nil: the dataset is no mixture
	leave   func()
}

// Leave releases the plan and its epoch.
func (r BatchOrder) Leave() { r.leave() }

// Order prepares the epoch of a batch. The caller must call Leave.
func (p *Plans) Order(ctx context.Context, d *Dataset, b address.Batch) (_ BatchOrder, err error) {
	if d.mixture != nil {
		return p.orderOfMixture(ctx, d, b)
	}
	c, leaveChoice, err := p.choose(ctx, d, b.Plan)
	if err != nil {
		return BatchOrder{}, err
	}
	left := leaveChoice
	defer func() {
		if left != nil { // an error, or a panic
			left()
		}
	}()
	key := planKey{dataset: d, params: b.Params, epoch: b.Epoch, isEpoch: true, dealt: dealtBytes(b.Plan)}
	plan, epoch, leavePlan, err := p.cache.epoch(ctx, key, c)
	if err != nil {
		return BatchOrder{}, err
	}
	if err := b.CheckSharing(plan); err != nil {
		leavePlan()
		return BatchOrder{}, err
	}
	left = nil
	r := BatchOrder{plan: plan, epoch: epoch, dataset: d, choice: c, leave: func() { leavePlan(); leaveChoice() }}
	if b.At == nil { // who names positions follows no order, and nothing is read ahead for him
		first := b.Number * b.BatchSize
		r.Cursor = shuffle.Cursor{
			Plan: plan, Epoch: epoch,
			First: first, End: min(first+b.BatchSize, b.Samples), BatchSize: b.BatchSize,
			Rank: b.Rank, WorldSize: b.WorldSize, Sharing: b.Sharing, Homes: b.Homes, Dealt: b.Deals(), Tail: b.Tail,
		}
	}
	return r, nil
}

// Numbers are the samples that a batch needs, by their numbers in the index.
type Numbers struct {
	Numbers []uint64 // in the order of the epoch
	Hot     []bool   // which of them the plan draws often; empty: none
	Places  []int    // where they are no contiguous run: the distance of each from the batch's first position
}

// Numbers names the samples at the positions of a share; where shares follow homes, those of them that fall to the
// rank. It uses the memory of dst.
func (r BatchOrder) Numbers(ctx context.Context, b address.Batch, positions shuffle.Share, dst []uint64) (n Numbers, err error) {
	n.Numbers = dst[:0]
	for _, at := range b.At {
		n.Places = append(n.Places, int(at))
	}
	if r.mixed != nil {
		n.Numbers, err = r.mixed.appendNumbers(ctx, n.Numbers, r.dataset.Index.(*mixtureIndex))
		return n, err
	}
	switch {
	case b.At != nil:
		n.Numbers, n.Hot, err = r.appendSamples(ctx, n.Numbers, b.At)
		return n, err
	case b.Follows():
		n.Places = r.epoch.DealHomes(positions, b.Rank, b.WorldSize, b.Homes)
		for _, place := range n.Places {
			n.Numbers = append(n.Numbers, r.epoch.At((positions.First+uint64(place))%b.Samples))
		}
	default:
		n.Numbers = r.epoch.AppendShare(slices.Grow(n.Numbers, int(positions.Count)), positions)
	}
	n.Hot, err = r.choice.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, n.Numbers)
	return n, err
}

// samplesAt returns the samples at some positions.
func (r BatchOrder) samplesAt(ctx context.Context, positions []uint64) ([]uint64, error) {
	out, _, err := r.appendSamples(ctx, make([]uint64, 0, len(positions)), positions)
	return out, err
}

// appendSamples appends the samples at some positions, best ascending ones, and says which of them the plan draws often. Positions
// past the end of the epoch pad the last batch.
func (r BatchOrder) appendSamples(ctx context.Context, out, positions []uint64) (_ []uint64, hot []bool, err error) {
	samples := r.plan.Samples()
	for len(positions) > 0 { // one contiguous run after the other
		lo, n := positions[0]%samples, uint64(1)
		for n < uint64(len(positions)) && positions[n] == positions[0]+n && lo+n < samples {
			n++
		}
		out = r.epoch.Append(out, lo, lo+n)
		positions = positions[n:]
	}
	hot, err = r.choice.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, out)
	return out, hot, err
}

// The memory to plan a request, in bytes.
const (
	// bytesPerSample is for each sample that is located: 116 for the sample (number 8, place 32, length 4, range 24,
	// segment 24 twice) and up to 100 for a chunk that holds no other sample of the batch.
	bytesPerSample = 216
	bytesPerDraw   = 16 // more, for a sample that is drawn by importance or dealt

	// For each home, and for each sample of a global batch that is shared out by homes.
	bytesPerHome       = 64
	dealOverhead       = 1 << 10
	homeBytesPerSample = 20
)

// PlanningBytes is the memory to locate the samples of a batch.
func PlanningBytes(d *Dataset, b address.Batch) int64 {
	share, positions := b.Share()
	switch {
	case b.Follows():
		return int64(share.Count)*(bytesPerSample+bytesPerDraw) + int64(positions.Count)*homeBytesPerSample + int64(b.Homes)*bytesPerHome
	case b.Deals() || b.Params.Importance != "" || b.Params.Subset != "" || d.mixture != nil:
		return int64(positions.Count) * (bytesPerSample + bytesPerDraw)
	}
	return int64(positions.Count) * bytesPerSample
}

// dealtBytes is what an epoch keeps of batches that were shared out by homes.
func dealtBytes(a address.Plan) int64 {
	if !a.Follows() {
		return 0
	}
	return dealOverhead + shuffle.KeptDeals*4*int64(min(a.BatchSize, maxKept))
}

// choice is what a plan is made with beside the dataset. It maps the samples of a plan to those of the dataset.
type choice struct {
	weights    *Weights // with importance: a plan's samples are draws
	subset     subset   // with a subset: a plan's samples are its members
	quarantine *shuffle.Quarantine
}

// choose opens what a plan is made with, and returns the function that ends its use.
func (p *Plans) choose(ctx context.Context, d *Dataset, a address.Plan) (c choice, _ func(), err error) {
	var held Holds
	defer held.Drop()
	var end func()
	if a.Params.Importance != "" {
		if c.weights, end, err = p.OpenWeights(ctx, d, a.Params.Importance); err != nil {
			return c, nil, err
		}
		held = append(held, end)
	}
	if a.Params.Subset != "" {
		if c.subset, end, err = p.subsets.acquire(ctx, objectKey{dataset: d, name: a.Params.Subset}); err != nil {
			return c, nil, err
		}
		held = append(held, end)
	}
	if a.Quarantine != "" {
		key := objectKey{dataset: d, name: a.Quarantine, params: shuffle.Params{Seed: a.Params.Seed, Subset: a.Params.Subset}}
		q, end, err := p.quarantines.acquire(ctx, key)
		if err != nil {
			return c, nil, err
		}
		held = append(held, end)
		c.quarantine = q.Quarantine
	}
	return c, held.Keep(), nil
}

// chosen is choose for what is open already. ok is false where something is not.
func (p *Plans) chosen(d *Dataset, params shuffle.Params) (c choice, leave func(), ok bool) {
	leave, ok = func() {}, true
	switch {
	case params.Importance != "" && params.Subset != "":
		return c, leave, false
	case params.Importance != "":
		c.weights, leave, ok = p.weights.find(objectKey{dataset: d, name: params.Importance})
	case params.Subset != "":
		c.subset, leave, ok = p.subsets.find(objectKey{dataset: d, name: params.Subset})
	}
	return c, leave, ok
}

// plan makes a plan over a dataset.
func (c choice) plan(params shuffle.Params, first []uint64) (*shuffle.Plan, error) {
	switch {
	case c.weights != nil:
		return shuffle.NewWeightedPlan(params, first, c.weights.Totals())
	case c.subset != nil:
		return shuffle.NewSubsetPlan(params, first, c.subset.Members())
	}
	return shuffle.NewPlan(params, first)
}

// virtual reports whether a plan numbers its samples otherwise than the dataset does.
func (c choice) virtual() bool { return c.weights != nil || c.subset != nil }

// resolve replaces a plan's samples, at some positions of an epoch, by the dataset's samples that are delivered there.
// hot says which of them the plan draws often.
func (c choice) resolve(ctx context.Context, first []uint64, plan *shuffle.Plan, e *shuffle.Epoch, numbers []uint64) (hot []bool, err error) {
	if c.quarantine != nil {
		c.quarantine.Replace(e.Number(), numbers)
	}
	if !c.virtual() {
		return nil, nil
	}
	hot = make([]bool, len(numbers))
	order := make([]int, len(numbers)) // places in numbers, virtual samples ascending
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	virtual := c.first(plan, e)
	// The weights or the bitmap of a chunk are read once for all of its samples, and dropped: memory does not grow with
	// the number of chunks.
	for len(order) > 0 {
		v := numbers[order[0]]
		chunk := sort.Search(len(virtual)-1, func(i int) bool { return virtual[i+1] > v })
		sample, err := c.of(ctx, chunk, plan, e)
		if err != nil {
			return nil, err
		}
		for len(order) > 0 && numbers[order[0]] < virtual[chunk+1] {
			n := &numbers[order[0]]
			place, often := sample(*n)
			*n, hot[order[0]] = first[chunk]+place, often
			order = order[1:]
		}
	}
	return hot, nil
}

// first returns the prefix sums of a plan's virtual samples by chunk.
func (c choice) first(plan *shuffle.Plan, e *shuffle.Epoch) []uint64 {
	if c.weights != nil {
		return e.Draws().First()
	}
	return plan.Members().First()
}

// of returns a function that maps a virtual sample of a chunk to its place within the chunk. hot says whether the sample
// is drawn often.
func (c choice) of(ctx context.Context, chunk int, plan *shuffle.Plan, e *shuffle.Epoch) (func(v uint64) (place uint64, hot bool), error) {
	if c.subset != nil {
		bitmap, err := c.subset.Bitmap(ctx, chunk)
		return func(v uint64) (uint64, bool) { return plan.Members().Sample(chunk, bitmap, v), false }, err
	}
	weights, err := c.weights.Weights(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("weights of chunk %d: %w", chunk, err)
	}
	often, err := c.weights.Hot(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("hot samples of chunk %d: %w", chunk, err)
	}
	return func(v uint64) (uint64, bool) {
		place := e.Draws().Sample(chunk, weights, v)
		return place, often.Has(place)
	}, nil
}

// orderDigest names the order of all epochs.
func (c choice) orderDigest(plan *shuffle.Plan) string {
	if c.quarantine != nil {
		return c.quarantine.OrderDigest(plan)
	}
	return plan.OrderDigest()
}

// target is one sample of the dataset, as the plans of a choice know it.
type target struct {
	drawn      *weightedSample // with importance: it is drawn by weight
	number     uint64          // that the plan gives it
	never      bool            // it is not in the subset
	quarantine *shuffle.Quarantine
}

// seek finds a sample of the dataset among those that a plan orders.
func (c choice) seek(ctx context.Context, d *Dataset, plan *shuffle.Plan, sample uint64) (s target, err error) {
	s = target{number: sample, quarantine: c.quarantine}
	switch {
	case c.weights != nil:
		s.drawn, err = c.weights.find(ctx, d.Index, sample)
	case c.subset != nil:
		chunk := d.Index.ChunkOf(sample)
		var bitmap []byte
		if bitmap, err = c.subset.Bitmap(ctx, chunk); err != nil {
			return s, err
		}
		var member bool
		s.number, member = plan.Members().Of(chunk, bitmap, sample-d.Index.First()[chunk])
		s.never = !member
	}
	return s, err
}

// most bounds how often an epoch's order has the sample.
func (s target) most(c choice) uint64 {
	switch {
	case s.never:
		return 0
	case s.drawn != nil:
		return c.weights.mostDraws(s.drawn)
	case s.quarantine != nil:
		return s.quarantine.Most(s.number)
	}
	return 1
}

// positions returns where an epoch's order has the sample, in any order.
func (s target) positions(e *shuffle.Epoch) []uint64 {
	switch {
	case s.never:
		return nil
	case s.drawn != nil:
		return s.drawn.positions(e)
	case s.quarantine == nil:
		return []uint64{e.Position(s.number)}
	case s.quarantine.Has(s.number):
		return nil
	}
	out := []uint64{e.Position(s.number)}
	for _, bad := range s.quarantine.Replaced(e.Number(), s.number) {
		out = append(out, e.Position(bad))
	}
	return out
}
