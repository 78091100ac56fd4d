package plans

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/selection"
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
	weights     *opened[*Weights]
	subsets     *opened[*selection.Subset]
	quarantines *opened[quarantine]
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
	p := &Plans{cache: newCache(limit, memory.Reserve), memory: memory}
	p.weights = newOpened("snapshot", weightsBytes, openWeights, memory.Hold)
	size := func(key openedKey) int64 { return selection.SubsetBytes(key.dataset.Index.Chunks()) }
	p.subsets = newOpened("subset", size, p.openSubset, memory.Hold)
	p.quarantines = newOpened("quarantine", func(openedKey) int64 { return quarantineBytes }, p.openQuarantine, memory.Hold)
	p.quarantines.held = quarantine.bytes
	return p
}

// Bytes returns what the kept plans and epochs take, estimated.
func (p *Plans) Bytes() int64 { return p.cache.size() }

// Close closes what requests have opened. No request may be in flight.
func (p *Plans) Close() error {
	return errors.Join(p.quarantines.close(), p.subsets.close(), p.weights.close())
}

// Complete finishes a plan that was decoded without a fault: it finds the split that is meant where the URL names none,
// and the number of samples of an epoch.
func (p *Plans) Complete(ctx context.Context, d *Dataset, a *address.Plan) error {
	if d.mixture != nil {
		return d.mixture.complete(a)
	}
	a.Samples = d.Index.Samples()
	if a.Params.Subset == "" && a.Quarantine == "" {
		return nil
	}
	if d.Selection == nil {
		return address.Refuse(address.NotFound, "this gateway keeps no subsets and no quarantines of the dataset")
	}
	if a.Params.Subset == "" {
		return nil
	}
	if err := d.nameSplit(ctx, &a.Params); err != nil {
		return err
	}
	s, leave, err := p.subsets.acquire(ctx, openedKey{dataset: d, name: a.Params.Subset})
	if err != nil {
		return err
	}
	a.Samples = s.Samples()
	leave()
	return nil
}

// CheckSplit refuses split=locality where the dataset has too few lanes for the homes. It reads nothing.
func (p *Plans) CheckSplit(ctx context.Context, d *Dataset, a address.Plan) error {
	if a.Split == shuffle.Contiguous || a.Params.Shuffle != shuffle.Slot {
		return nil
	}
	a.Params.Importance, a.Quarantine = "", "" // they do not change the lanes
	plan, _, leave, err := p.plan(ctx, d, a)
	if err != nil {
		return err
	}
	defer leave()
	return a.CheckSplit(plan)
}

// plan returns the plan of an address, what it is made with, and the function that ends its use.
func (p *Plans) plan(ctx context.Context, d *Dataset, a address.Plan) (_ *shuffle.Plan, c choice, leave func(), err error) {
	c, leaveChoice, err := p.choose(ctx, d, a)
	if err != nil {
		return nil, c, nil, err
	}
	defer func() {
		if leave == nil { // an error, or a panic
			leaveChoice()
		}
	}()
	plan, leavePlan, err := p.cache.plan(ctx, d, a.Params, c)
	if err != nil {
		return nil, c, nil, err
	}
	return plan, c, func() { leavePlan(); leaveChoice() }, nil
}

// ForReader returns a plan and an epoch of it for a reader that another gateway has told of, and the function that ends
// their use. It opens nothing: a snapshot or a subset must be in use here already. It refuses a dataset or a generation
// that is not served, and parameters that no request could have.
func (p *Plans) ForReader(
	ctx context.Context, d *Dataset, params shuffle.Params, epoch uint64,
) (_ *shuffle.Plan, _ *shuffle.Epoch, leave func(), err error) {
	name := d.Name()
	if params.Window > address.MaxWindow || params.Strata > address.MaxStrata {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: window %d and strata %d, more than a request may have", name, params.Window, params.Strata)
	}
	c, leaveChoice, ok := p.chosen(d, params)
	if !ok {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: snapshot %.12s or subset %.12s is not open here", name, params.Importance, params.Subset)
	}
	defer func() {
		if leave == nil { // an error, or a panic
			leaveChoice()
		}
	}()
	plan, at, leavePlan, err := p.cache.epoch(ctx, planKey{dataset: d, params: params, epoch: epoch, isEpoch: true}, c)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: %w", name, err)
	}
	return plan, at, func() { leavePlan(); leaveChoice() }, nil
}
