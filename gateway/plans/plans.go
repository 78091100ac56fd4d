package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Reservation is reserved memory, such as *budget.Reservation.
type Reservation interface {
	Shrink(n int64)
	Release()
}

// Plans caches the most recently used plans, epochs, snapshots, subsets, quarantines and cost tables.
type Plans struct {
	memory      Memory
	prepared    *cache[prepared]
	weights     *cache[*Weights]
	subsets     *cache[subset]
	quarantines *cache[*shuffle.Quarantine]
	costs       *cache[*selection.Costs]
	cutting     *semaphore.Weighted // one subset is computed at a time, since reading all names needs a whole processor
}

// Memory reserves memory of the process's budget.
type Memory interface {
	// Reserve reserves n bytes for a request. Small amounts may be exempt, because they count
	// as part of a connection.
	Reserve(ctx context.Context, n int64) (release func(), err error)

	// Hold reserves n bytes that outlive a request.
	Hold(ctx context.Context, n int64) (Reservation, error)
}

// New returns Plans that reserve memory from memory, in addition to what Allow allows.
func New(memory Memory) *Plans {
	p := &Plans{memory: memory, cutting: semaphore.NewWeighted(1)}
	p.prepared = newCache("plan", preparedBytes, p.prepare, func(ctx context.Context, n int64) (Reservation, error) {
		release, err := memory.Reserve(ctx, n)
		return requestMemory{release}, err
	})
	p.weights = newCache("snapshot", weightsBytes, openWeights, memory.Hold)
	p.weights.idle, p.weights.close = maxIdle, (*Weights).Close
	p.subsets = newCache("subset", subsetBytes, p.openSubset, memory.Hold)
	p.subsets.idle, p.subsets.close, p.subsets.held = maxIdle, subset.Close, heldBySubset
	p.subsets.roomy = func() int64 { limit, _ := p.prepared.use(); return limit }
	p.quarantines = newCache("quarantine", quarantineBytes, p.openQuarantine, memory.Hold)
	p.quarantines.idle, p.quarantines.held = maxIdle, (*shuffle.Quarantine).Bytes
	p.costs = newCache("cost table", costsBytes, openCosts, memory.Hold)
	p.costs.idle, p.costs.close = maxIdleSubsets, (*selection.Costs).Close
	return p
}

// Allow sets the limit of prepared epochs between requests, which must not shrink.
func (p *Plans) Allow(limit int64) { p.prepared.allow(limit) }

// Bytes estimates the memory of the cached plans and epochs.
func (p *Plans) Bytes() int64 {
	_, bytes := p.prepared.use()
	return bytes
}

// Close closes all open objects. No request may be in progress.
func (p *Plans) Close() error {
	return errors.Join(p.costs.forget(nil), p.quarantines.forget(nil), p.subsets.forget(nil), p.weights.forget(nil))
}

// Forget removes all cached data of a dataset. No request may use it.
func (p *Plans) Forget(d *Dataset) error {
	return errors.Join(p.prepared.forget(d), p.costs.forget(d), p.quarantines.forget(d), p.subsets.forget(d), p.weights.forget(d))
}

// Complete completes a plan that was decoded without faults. It resolves the default split and the
// number of samples per epoch, and rejects shares that the dataset does not support.
func (p *Plans) Complete(ctx context.Context, d *Dataset, a *address.Plan) error {
	if err := d.completeCosts(ctx, a); err != nil {
		return err
	}
	if d.mixture != nil {
		return d.mixture.complete(a)
	}
	a.Samples = d.Index.Samples()
	s, _ := address.ParseSubset(a.Params.Subset)
	if d.Selection == nil && (s.Stored != "" || address.IsDigest(a.Quarantine)) {
		return address.Refuse(address.NotFound, "this gateway does not support subsets and quarantines for the dataset")
	}
	if a.Params.Subset != "" {
		split, err := d.splitOf(ctx, s)
		if err != nil {
			return err
		}
		a.Params.Subset = split + a.Params.Subset
		if a.Samples, err = p.SubsetSamples(ctx, d, a.Params.Subset); err != nil {
			return err
		}
	}
	return p.checkSharing(ctx, d, *a)
}

// checkSharing rejects share=locality if the dataset has too few lanes for the homes. It reads no
// data.
func (p *Plans) checkSharing(ctx context.Context, d *Dataset, a address.Plan) error {
	if a.Sharing == shuffle.Contiguous || a.Params.Shuffle != shuffle.Slot {
		return nil
	}
	a.Params.Importance, a.Quarantine = "", "" // these do not affect the lanes
	var held Holds
	defer held.Drop()
	plan, _, err := p.plan(ctx, &held, d, a)
	if err != nil {
		return err
	}
	return a.CheckSharing(plan)
}

// plan acquires the plan of an address with its choice.
func (p *Plans) plan(ctx context.Context, held *Holds, d *Dataset, a address.Plan) (*shuffle.Plan, choice, error) {
	c, err := p.choose(ctx, held, d, a)
	if err != nil {
		return nil, c, err
	}
	v, err := p.prepared.acquire(ctx, held, key{dataset: d, params: a.Params})
	return v.plan, c, err
}

// ForReader acquires the plan and epoch of a reader that another gateway has announced. It opens no
// snapshot or subset: they must be open already. It fails for parameters that no request can have.
func (p *Plans) ForReader(ctx context.Context, held *Holds, d *Dataset, params shuffle.Params, epoch uint64) (*shuffle.Plan, *shuffle.Epoch, error) {
	name := d.Name()
	if err := params.Check(); err != nil {
		return nil, nil, fmt.Errorf("plan %s for another gateway: %w", name, err)
	}
	if !p.isChosen(held, d, params) {
		return nil, nil, fmt.Errorf("plan %s for another gateway: snapshot %.12s or subset %.12s is not open here", name, params.Importance, params.Subset)
	}
	v, err := p.epoch(ctx, held, key{dataset: d, params: params, epoch: epoch})
	if err != nil {
		return nil, nil, fmt.Errorf("plan %s for another gateway: %w", name, err)
	}
	return v.plan, v.epoch, nil
}

// maxKept is the maximum size of a batch whose division among homes an epoch caches.
const maxKept = 1 << 20

// BatchOrder maps the positions of one batch to samples, by its prepared plan and epoch.
type BatchOrder struct {
	shuffle.Cursor // description of the reader for the tiers; zero: none

	order
	plans    *Plans
	batch    address.Batch
	mixture  *shuffle.Mixture // nil: not a mixture, of which order has only the dataset
	original bool             // quarantines of the sources of a mixture do not apply
	division *division        // nil: shares do not depend on costs
}

// order is a prepared epoch of one dataset with the choice of its samples.
type order struct {
	prepared
	dataset *Dataset
	choice  choice
}

// order acquires an epoch of a plan.
func (p *Plans) order(ctx context.Context, held *Holds, d *Dataset, a address.Plan, epoch uint64) (o order, err error) {
	o.dataset = d
	if o.choice, err = p.choose(ctx, held, d, a); err == nil {
		o.prepared, err = p.epoch(ctx, held, key{dataset: d, params: a.Params, epoch: epoch, bytes: dealtBytes(a)})
	}
	return o, err
}

// Order prepares the epoch of a batch, and divides a balanced batch. The order is valid until held
// is dropped.
func (p *Plans) Order(ctx context.Context, held *Holds, d *Dataset, b address.Batch) (BatchOrder, error) {
	r, err := p.undivided(ctx, held, d, b)
	if err == nil && b.Balances() {
		r.division, err = p.divide(ctx, held, d, b)
	}
	return r, err
}

// undivided prepares the epoch of a batch, for Order.
func (p *Plans) undivided(ctx context.Context, held *Holds, d *Dataset, b address.Batch) (r BatchOrder, err error) {
	r.dataset, r.plans, r.batch = d, p, b
	if d.mixture != nil {
		err = r.openMixture(ctx, held)
		return r, err
	}
	r.order, err = p.order(ctx, held, d, b.Plan, b.Epoch)
	if err == nil && b.At == nil { // positions from the caller have no order, so nothing is prefetched
		first := b.Number * b.BatchSize
		r.Cursor = shuffle.Cursor{
			Plan: r.plan, Epoch: r.epoch,
			First: first, End: min(first+b.BatchSize, b.Samples), BatchSize: b.BatchSize,
			Rank: b.Rank, WorldSize: b.WorldSize, Sharing: b.Sharing, Homes: b.Homes, Dealt: b.Balances(), Tail: b.Tail,
		}
		if b.Bucket > 1 {
			r.Block = b.Bucket * b.BatchSize
		}
	}
	return r, err
}

// Numbers are the samples of a batch, by their numbers in the index.
type Numbers struct {
	Numbers []uint64 // in the order of the epoch
	Hot     []bool   // marks the samples that the plan draws often; empty: none
	Places  []int    // offset of each position from the batch's first one, if the positions are not contiguous
	Totals
}

// Totals describe a global batch, and the micro-batches of a share of it.
type Totals struct {
	Samples uint64   // in the global batch; 0: the caller composes the batch
	Cost    uint64   // sum of the samples' costs; 0: shares do not depend on costs
	Micro   []uint32 // number of samples in each micro-batch of the share; nil: the share is not divided
}

// Numbers returns the samples of the rank's share of the batch. It uses the memory of dst.
func (r BatchOrder) Numbers(ctx context.Context, dst []uint64) (n Numbers, err error) {
	b := r.batch
	_, positions := b.Share()
	n.Numbers = dst[:0]
	switch {
	case r.division != nil:
		r.division.share(&n, b)
	case b.At != nil:
		n, err = r.numbersAt(ctx, n.Numbers, b.At)
		for _, position := range b.At {
			n.Places = append(n.Places, int(position))
		}
		return n, err
	case b.Follows():
		n, err = r.homeShare(ctx, n.Numbers, positions)
	case r.mixture != nil || b.Bucket > 1:
		n, err = r.numbersAt(ctx, n.Numbers, Positions(positions))
	default:
		n.Numbers = r.epoch.AppendShare(slices.Grow(n.Numbers, int(positions.Count)), positions)
		n.Hot, err = r.resolve(ctx, n.Numbers)
	}
	n.Samples = b.Global().Count
	return n, err
}

// homeShare returns the samples of the rank's share if shares follow homes.
func (r BatchOrder) homeShare(ctx context.Context, dst []uint64, positions shuffle.Share) (n Numbers, err error) {
	b := r.batch
	var at []uint64
	if b.Bucket > 1 {
		former, err := r.former(ctx, Positions(positions))
		if err != nil {
			return n, err
		}
		n.Places = r.epoch.DealHomesAt(former, b.Rank, b.WorldSize, b.Homes)
		for _, place := range n.Places {
			at = append(at, former[place])
		}
	} else {
		n.Places = r.epoch.DealHomes(positions, b.Rank, b.WorldSize, b.Homes)
		for _, place := range n.Places {
			at = append(at, positions.First+uint64(place))
		}
	}
	n.Numbers, n.Hot, err = r.appendSamples(ctx, dst, at)
	return n, err
}

// Positions returns the positions of a share.
func Positions(s shuffle.Share) []uint64 {
	out := make([]uint64, s.Count)
	for i := range out {
		out[i] = s.First + uint64(i)
	}
	return out
}

// samplesAt returns the samples at the given positions.
func (r BatchOrder) samplesAt(ctx context.Context, positions []uint64) ([]uint64, error) {
	n, err := r.numbersAt(ctx, nil, positions)
	return n.Numbers, err
}

// numbersAt is like samplesAt, and marks the samples that the plan draws often. It appends to dst.
func (r BatchOrder) numbersAt(ctx context.Context, dst, positions []uint64) (n Numbers, err error) {
	former, err := r.former(ctx, positions)
	if err != nil {
		return n, err
	}
	n.Numbers, n.Hot, err = r.appendSamples(ctx, slices.Grow(dst, len(positions)), former)
	return n, err
}

// appendSamples appends the samples at the given positions of the order without buckets, and returns
// which of them the plan draws often. It is fastest for ascending positions. Positions past the end
// of the epoch are padding.
func (r BatchOrder) appendSamples(ctx context.Context, out, positions []uint64) (_ []uint64, hot []bool, err error) {
	if r.mixture != nil {
		out, err = r.appendMixed(ctx, out, positions)
		return out, nil, err
	}
	samples := r.plan.Samples()
	for len(positions) > 0 { // one contiguous run at a time
		lo, n := positions[0]%samples, uint64(1)
		for n < uint64(len(positions)) && positions[n] == positions[0]+n && lo+n < samples {
			n++
		}
		out = r.epoch.Append(out, lo, lo+n)
		positions = positions[n:]
	}
	hot, err = r.resolve(ctx, out)
	return out, hot, err
}

// Memory needed to plan a request, in bytes.
const (
	// bytesPerSample is the memory per located sample: 116 for the sample (number 8, place 32,
	// length 4, range 24, segment 24 twice), and up to 100 for a chunk without other samples of the
	// batch.
	bytesPerSample = 216
	bytesPerDraw   = 16 // additional memory per sample that is drawn by importance

	// Memory per home, and per sample of a global batch that is shared by homes.
	bytesPerHome       = 64
	dealOverhead       = 1 << 10
	homeBytesPerSample = 20
)

// PlanningBytes returns the memory needed to locate a share of the given number of samples.
func PlanningBytes(d *Dataset, b address.Batch, samples uint64) int64 {
	each := int64(bytesPerSample)
	if b.Scattered() || b.Bucket > 1 || b.Params.Importance != "" || b.Params.Subset != "" || d.mixture != nil {
		each += bytesPerDraw
	}
	n := int64(samples) * each
	if b.Follows() {
		n += int64(b.Global().Count)*homeBytesPerSample + int64(b.Homes)*bytesPerHome
	}
	return n
}

// dealtBytes returns the memory that an epoch uses to cache batches shared by homes.
func dealtBytes(a address.Plan) int64 {
	if !a.Follows() {
		return 0
	}
	return dealOverhead + shuffle.KeptDeals*4*int64(min(a.BatchSize, maxKept))
}

// choice has the inputs of a plan in addition to the dataset. It maps the samples of the plan to
// samples of the dataset.
type choice struct {
	weights    *Weights // with importance: samples of the plan are draws
	subset     subset   // with a subset: samples of the plan are its members
	quarantine *shuffle.Quarantine
}

// choose acquires the inputs of a plan.
func (p *Plans) choose(ctx context.Context, held *Holds, d *Dataset, a address.Plan) (c choice, err error) {
	if a.Params.Importance != "" {
		c.weights, err = p.OpenWeights(ctx, held, d, a.Params.Importance)
	}
	if a.Params.Subset != "" && err == nil {
		c.subset, err = p.subsets.acquire(ctx, held, key{dataset: d, name: a.Params.Subset})
	}
	if a.Quarantine != "" && err == nil {
		k := key{dataset: d, name: a.Quarantine, params: shuffle.Params{Seed: a.Params.Seed, Subset: a.Params.Subset}}
		c.quarantine, err = p.quarantines.acquire(ctx, held, k)
	}
	return c, err
}

// isChosen acquires the inputs of a plan if they are already open, and reports whether they are.
func (p *Plans) isChosen(held *Holds, d *Dataset, params shuffle.Params) bool {
	switch {
	case params.Importance != "" && params.Subset != "":
		return false
	case params.Importance != "":
		return p.weights.find(held, key{dataset: d, name: params.Importance})
	case params.Subset != "":
		return p.subsets.find(held, key{dataset: d, name: params.Subset})
	}
	return true
}

// plan returns a plan over a dataset.
func (c choice) plan(params shuffle.Params, first []uint64) (*shuffle.Plan, error) {
	switch {
	case c.weights != nil:
		return shuffle.NewWeightedPlan(params, first, c.weights.Totals())
	case c.subset != nil:
		return shuffle.NewSubsetPlan(params, first, c.subset.Members())
	}
	return shuffle.NewPlan(params, first)
}

// virtual reports whether the plan numbers samples differently from the dataset.
func (c choice) virtual() bool { return c.weights != nil || c.subset != nil }

// resolve converts the plan's samples, at some positions of the epoch, into the dataset's samples.
// hot marks the samples that the plan draws often.
func (o order) resolve(ctx context.Context, numbers []uint64) (hot []bool, err error) {
	if q := o.choice.quarantine; q != nil {
		q.Replace(o.epoch.Number(), numbers)
	}
	if !o.choice.virtual() {
		return nil, nil
	}
	hot = make([]bool, len(numbers))
	left := make([]int, len(numbers)) // indexes in numbers, by ascending virtual sample
	for i := range left {
		left[i] = i
	}
	slices.SortFunc(left, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	virtual, first := o.first(), o.dataset.Index.First()
	// The weights or bitmap of a chunk are read once for all of its samples and then dropped, so
	// that memory does not grow with the number of chunks.
	for len(left) > 0 {
		v := numbers[left[0]]
		chunk := sort.Search(len(virtual)-1, func(i int) bool { return virtual[i+1] > v })
		sample, err := o.of(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for len(left) > 0 && numbers[left[0]] < virtual[chunk+1] {
			n := &numbers[left[0]]
			place, often := sample(*n)
			*n, hot[left[0]] = first[chunk]+place, often
			left = left[1:]
		}
	}
	return hot, nil
}

// first returns the prefix sums of the plan's samples by chunk.
func (o order) first() []uint64 {
	switch {
	case o.choice.weights != nil:
		return o.epoch.Draws().First()
	case o.choice.subset != nil:
		return o.plan.Members().First()
	}
	return o.dataset.Index.First()
}

// of returns a function that maps a virtual sample of a chunk to its place within the chunk, and
// reports whether the sample is drawn often.
func (o order) of(ctx context.Context, chunk int) (func(v uint64) (place uint64, hot bool), error) {
	c := o.choice
	if c.subset != nil {
		bitmap, err := c.subset.Bitmap(ctx, chunk)
		return func(v uint64) (uint64, bool) { return o.plan.Members().Sample(chunk, bitmap, v), false }, err
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
		place := o.epoch.Draws().Sample(chunk, weights, v)
		return place, often.Has(place)
	}, nil
}

// orderDigest identifies the order of all epochs.
func (c choice) orderDigest(plan *shuffle.Plan) string {
	if c.quarantine != nil {
		return c.quarantine.OrderDigest(plan)
	}
	return plan.OrderDigest()
}

// target is one sample of the dataset in terms of a plan.
type target struct {
	most      uint64                          // bound of its occurrences in an epoch's order; 0: it has none
	positions func(e *shuffle.Epoch) []uint64 // positions in an epoch's order, unsorted
}

// seek finds a sample of the dataset among the samples of a plan.
func (c choice) seek(ctx context.Context, d *Dataset, plan *shuffle.Plan, sample uint64) (target, error) {
	if c.weights != nil {
		s, err := c.weights.find(ctx, d.Index, sample)
		if err != nil {
			return target{}, err
		}
		return target{c.weights.mostDraws(s), s.positions}, nil
	}
	if c.subset != nil {
		chunk := d.Index.ChunkOf(sample)
		bitmap, err := c.subset.Bitmap(ctx, chunk)
		if err != nil {
			return target{}, err
		}
		member := false
		if sample, member = plan.Members().Of(chunk, bitmap, sample-d.Index.First()[chunk]); !member {
			return target{}, nil
		}
	}
	q := c.quarantine
	if q == nil {
		return target{1, func(e *shuffle.Epoch) []uint64 { return []uint64{e.Position(sample)} }}, nil
	}
	return target{q.Most(sample), func(e *shuffle.Epoch) (out []uint64) {
		for _, number := range append(q.Replaced(e.Number(), sample), sample) {
			out = append(out, e.Position(number))
		}
		return out
	}}, nil
}
