package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// bucketOrder maps the positions of an epoch with buckets to those of the same epoch without them.
type bucketOrder struct {
	plans   *Plans
	dataset *Dataset
	batch   address.Batch // any batch of the epoch
}

// Memory of a block in bytes, per sample, and in addition to compute it.
const (
	bytesPerArranged = 4
	bytesToArrange   = 48
)

// former returns the positions, in the order without buckets, of the samples at some positions.
// Positions past the end of the epoch are padding.
func (r BatchOrder) former(ctx context.Context, positions []uint64) ([]uint64, error) {
	if r.buckets == nil {
		return positions, nil
	}
	buckets, _ := r.buckets.batch.Buckets()
	out := make([]uint64, len(positions))
	var held Holds
	defer func() { held.Drop() }()
	var order []uint32
	last := uint64(0)
	for i, t := range positions {
		t %= buckets.Samples
		block, ok := buckets.Block(t)
		if out[i] = t; !ok {
			continue
		}
		if order == nil || block != last {
			held.Drop()
			var err error
			if order, err = r.buckets.order(ctx, &held, buckets, block); err != nil {
				return nil, err
			}
			last = block
		}
		from, _ := buckets.Range(block)
		out[i] = from + uint64(order[t-from])
	}
	return out, nil
}

// later returns the position of the sample that the order without buckets has at a position: the
// inverse of former.
func (o *bucketOrder) later(ctx context.Context, position uint64) (uint64, error) {
	buckets, _ := o.batch.Buckets()
	block, ok := buckets.Block(position)
	if !ok {
		return position, nil
	}
	var held Holds
	defer held.Drop()
	order, err := o.order(ctx, &held, buckets, block)
	if err != nil {
		return 0, err
	}
	from, _ := buckets.Range(block)
	return from + uint64(slices.Index(order, uint32(position-from))), nil
}

// order acquires the order of a block.
func (o *bucketOrder) order(ctx context.Context, held *Holds, buckets shuffle.Buckets, block uint64) ([]uint32, error) {
	from, to := buckets.Range(block)
	k := key{
		dataset: o.dataset, params: o.batch.Params, epoch: o.batch.Epoch, bytes: bytesPerArranged * int64(to-from),
		name: fmt.Sprintf("block %d of %d batches of %d by %s", block, buckets.Batches, buckets.BatchSize, o.batch.Cost()),
	}
	v, err := o.plans.prepared.acquireBy(ctx, held, k, func(ctx context.Context, k key) (prepared, error) {
		order, err := o.arrange(ctx, buckets, block)
		return prepared{block: order}, err
	})
	return v.block, err
}

// arrange computes the order of a block.
func (o *bucketOrder) arrange(ctx context.Context, buckets shuffle.Buckets, block uint64) ([]uint32, error) {
	var held Holds
	defer held.Drop()
	from, to := buckets.Range(block)
	if err := held.Add(o.plans.memory.Reserve(ctx, bytesToArrange*int64(to-from))); err != nil {
		return nil, err
	}
	b := o.batch
	b.Bucket, b.Quarantine, b.At = 1, "", []uint64{}
	r, err := o.plans.undivided(ctx, &held, o.dataset, b)
	if err != nil {
		return nil, err
	}
	if r.mixed != nil {
		r.mixed.original = true
	}
	samples, err := r.samplesAt(ctx, Positions(shuffle.Share{First: from, Count: to - from}))
	if err != nil {
		return nil, err
	}
	costs, err := o.plans.costsOf(ctx, o.dataset, o.batch.Cost(), samples)
	if err != nil {
		return nil, err
	}
	return buckets.Arrange(b.Params.Seed, b.Epoch, block, costs), nil
}

// bucketDigest returns an order digest with the buckets of a plan, from the one without.
func bucketDigest(digest string, a address.Plan) string {
	if _, ok := a.Buckets(); !ok {
		return digest
	}
	return shuffle.BucketDigest(digest, a.Bucket, a.BatchSize, a.Cost())
}
