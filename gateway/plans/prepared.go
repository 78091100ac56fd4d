package plans

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// prepared is a plan, an epoch with its plan, the order of a block, or a divided batch.
type prepared struct {
	plan     *shuffle.Plan
	epoch    *shuffle.Epoch // nil: none
	block    []uint32       // nil: none
	division *division      // nil: none
}

// planBytes returns the memory of a plan without its epochs.
func (d *Dataset) planBytes(params shuffle.Params) int64 {
	return params.PlanBytes(uint64(d.Index.Chunks()), d.Index.Samples())
}

// epochBytes returns the memory of one prepared epoch.
func (d *Dataset) epochBytes(params shuffle.Params) int64 {
	return params.EpochBytes(uint64(d.Index.Chunks()), d.Index.Samples())
}

// LeastBytes returns the memory of one epoch of the largest dataset, which is the minimum limit for
// plans.
func LeastBytes(datasets []Index) int64 {
	least := int64(0)
	for _, x := range datasets {
		d := &Dataset{Index: x}
		params := shuffle.Params{Shuffle: shuffle.Slot}
		least = max(least, d.planBytes(params)+d.epochBytes(params))
	}
	return least
}

func preparedBytes(k key) int64 {
	switch {
	case k.name != "":
		return k.bytes
	case k.isEpoch:
		return k.dataset.epochBytes(k.params) + k.bytes
	}
	return k.dataset.planBytes(k.params)
}

// prepare computes a plan or an epoch. The caller has acquired the plan of an epoch, and the
// choice of a plan.
func (p *Plans) prepare(ctx context.Context, k key) (v prepared, err error) {
	var held Holds
	defer held.Drop()
	if k.isEpoch {
		if v, err = p.prepared.acquire(ctx, &held, key{dataset: k.dataset, params: k.params}); err == nil {
			v.epoch = v.plan.Epoch(k.epoch)
		}
		return v, err
	}
	c, err := p.choose(ctx, &held, k.dataset, address.Plan{Params: k.params})
	if err != nil {
		return v, err
	}
	if v.plan, err = c.plan(k.params, k.dataset.Index.First()); err != nil {
		err = fmt.Errorf("plan %s over %d chunks: %w", k.params.Shuffle, k.dataset.Index.Chunks(), err)
	}
	return v, err
}

// epoch acquires a prepared epoch and its plan.
func (p *Plans) epoch(ctx context.Context, held *Holds, k key) (prepared, error) {
	if v, err := p.prepared.acquire(ctx, held, key{dataset: k.dataset, params: k.params}); err != nil {
		return v, err
	}
	k.isEpoch = true
	return p.prepared.acquire(ctx, held, k)
}

// requestMemory is memory from Memory.Reserve. It does not shrink.
type requestMemory struct{ release func() }

func (requestMemory) Shrink(int64) {}
func (r requestMemory) Release()   { r.release() }
