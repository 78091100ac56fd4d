package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// former returns the positions, in the order without buckets, of the samples at some positions.
// Positions past the end of the epoch are padding.
func (r BatchOrder) former(ctx context.Context, positions []uint64) ([]uint64, error) {
	buckets, ok := r.batch.Buckets()
	if !ok {
		return positions, nil
	}
	var held Holds
	defer func() { held.Drop() }()
	var order []uint32
	from, to := uint64(0), uint64(0) // the block of order
	out := make([]uint64, len(positions))
	for i, t := range positions {
		t %= buckets.Samples
		block, ok := buckets.Block(t)
		if out[i] = t; !ok {
			continue
		}
		if t < from || t >= to {
			var err error
			if order, err = r.plans.block(ctx, &held, r.dataset, r.batch, block); err != nil {
				return nil, err
			}
			from, to = buckets.Range(block)
		}
		out[i] = from + uint64(order[t-from])
	}
	return out, nil
}

// later returns the position of the sample that the order without buckets has at a position: the
// inverse of former.
func (p *Plans) later(ctx context.Context, d *Dataset, a address.Plan, epoch, position uint64) (uint64, error) {
	buckets, ok := a.Buckets()
	if !ok {
		return position, nil
	}
	block, ok := buckets.Block(position)
	if !ok {
		return position, nil
	}
	var held Holds
	defer held.Drop()
	order, err := p.block(ctx, &held, d, address.Batch{Plan: a, Epoch: epoch}, block)
	if err != nil {
		return 0, err
	}
	from, _ := buckets.Range(block)
	return from + uint64(slices.Index(order, uint32(position-from))), nil
}

// block acquires the order of a block. b is any batch of its epoch.
func (p *Plans) block(ctx context.Context, held *Holds, d *Dataset, b address.Batch, block uint64) ([]uint32, error) {
	buckets, _ := b.Buckets()
	from, to := buckets.Range(block)
	k := key{
		dataset: d, params: b.Params, epoch: b.Epoch, bytes: 4 * int64(to-from),
		name: fmt.Sprintf("block %d of %d batches of %d by %s", block, buckets.Batches, buckets.BatchSize, b.Cost()),
	}
	b.Bucket, b.Quarantine = 1, ""
	v, err := p.byCosts(ctx, held, k, b, shuffle.Share{First: from, Count: to - from}, true, func(_ Numbers, costs []uint32) prepared {
		return prepared{block: buckets.Arrange(b.Params.Seed, b.Epoch, block, costs)}
	})
	return v.block, err
}

// bucketDigest returns an order digest with the buckets of a plan, from the one without.
func bucketDigest(digest string, a address.Plan) string {
	if _, ok := a.Buckets(); !ok {
		return digest
	}
	return shuffle.BucketDigest(digest, a.Bucket, a.BatchSize, a.Cost())
}
