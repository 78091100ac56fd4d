package body

import (
	"context"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// AddRanks adds the rank to each occurrence. If shares follow homes, the caller has reserved the
// memory needed to plan a batch.
func AddRanks(ctx context.Context, all *plans.Plans, d *plans.Dataset, a address.Plan, found []plans.Occurrence) error {
	for i := range found {
		o := &found[i]
		rank, err := rankOf(ctx, all, d, address.Batch{Plan: a, Epoch: o.Epoch, Number: o.Batch}, o.Position)
		if err != nil {
			return err
		}
		o.Rank = &rank
	}
	return nil
}

// rankOf returns the rank that reads a position of a batch.
func rankOf(ctx context.Context, all *plans.Plans, d *plans.Dataset, b address.Batch, position uint64) (uint64, error) {
	if !b.Scattered() {
		return b.Batching().RankOf(position, b.WorldSize), nil
	}
	if err := CheckShare(b.Global()); err != nil {
		return 0, err
	}
	var held plans.Holds
	defer held.Drop()
	r, err := all.Order(ctx, &held, d, b)
	if err != nil {
		return 0, err
	}
	return r.RankOf(ctx, position)
}
