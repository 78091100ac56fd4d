package body

import (
	"context"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// AddRanks adds the rank to each occurrence. The caller has reserved the memory needed to plan a
// batch.
func (p *Pool) AddRanks(ctx context.Context, all *plans.Plans, d *plans.Dataset, a address.Plan, found []plans.Occurrence) error {
	for i := range found {
		o := &found[i]
		rank, err := p.rank(ctx, all, d, address.Batch{Plan: a, Epoch: o.Epoch, Number: o.Batch}, o.Position)
		if err != nil {
			return err
		}
		o.Rank = &rank
	}
	return nil
}

// rank returns the rank that reads a position of a batch.
func (p *Pool) rank(ctx context.Context, all *plans.Plans, d *plans.Dataset, b address.Batch, position uint64) (uint64, error) {
	if !b.Scattered() {
		return b.Batching().RankOf(position, b.WorldSize), nil
	}
	_, positions := b.Share()
	if err := CheckShare(positions); err != nil {
		return 0, err
	}
	var held plans.Holds
	defer held.Drop()
	r, err := all.Order(ctx, &held, d, b)
	if err != nil {
		return 0, err
	}
	place := int(position - positions.First)
	if b.Follows() {
		return r.Epoch.HomeRank(positions, place, b.WorldSize, b.Homes), nil
	}
	whole := p.Get()
	defer p.Put(whole)
	if _, err := whole.name(ctx, r, b); err != nil {
		return 0, err
	}
	if err := whole.find(ctx, d.Index, nil); err != nil {
		return 0, err
	}
	return shuffle.DealtTo(whole.lengths, place, b.WorldSize), nil
}
