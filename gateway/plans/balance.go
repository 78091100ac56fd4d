package plans

import (
	"context"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// division is the division of a global batch among ranks by the costs of its samples. All ranks use
// the same one.
type division struct {
	shuffle.Division
	numbers []uint64 // samples of the batch
	hot     []bool   // marks the samples that the plan draws often; empty: none
	costs   []uint32
	total   uint64 // sum of the costs
}

// Memory of a division in bytes, per sample of the batch: number, mark, cost, place, and start of a
// rank.
const bytesPerDivided = 8 + 1 + 4 + 4 + 4

// divide acquires the division of a balanced batch.
func (p *Plans) divide(ctx context.Context, held *Holds, d *Dataset, b address.Batch) (*division, error) {
	k := key{dataset: d, name: b.Division(), bytes: bytesPerDivided * int64(b.Global().Count)}
	v, err := p.byCosts(ctx, held, k, b, b.Global(), false, func(n Numbers, costs []uint32) prepared {
		v := &division{Division: shuffle.Divide(costs, b.WorldSize), numbers: n.Numbers, hot: n.Hot, costs: costs}
		for _, c := range costs {
			v.total += uint64(max(c, 1))
		}
		return prepared{division: v}
	})
	return v.division, err
}

// share sets the samples of the share of a rank, in the order of its micro-batches.
func (v *division) share(n *Numbers, b address.Batch) {
	places := v.Share(b.Rank)
	n.Cost = v.total
	if b.Micro > 1 {
		places, n.Micro = v.micro(places, b.Micro)
	}
	n.Places = make([]int, len(places))
	for i, place := range places {
		n.Places[i] = int(place)
		n.Numbers = append(n.Numbers, v.numbers[place])
		if len(v.hot) > 0 {
			n.Hot = append(n.Hot, v.hot[place])
		}
	}
}

// micro divides a share among micro-batches. It returns the places of the first, then those of the
// next, and the number of samples in each.
func (v *division) micro(share []uint32, batches uint64) (places, counts []uint32) {
	costs := make([]uint32, len(share))
	for i, place := range share {
		costs[i] = v.costs[place]
	}
	d := shuffle.Divide(costs, batches)
	for i := range batches {
		own := d.Share(i)
		counts = append(counts, uint32(len(own)))
		for _, at := range own {
			places = append(places, share[at])
		}
	}
	return places, counts
}

// Count returns the number of samples in the rank's share of the batch.
func (r BatchOrder) Count() uint64 {
	if r.division != nil {
		return uint64(len(r.division.Share(r.batch.Rank)))
	}
	share, _ := r.batch.Share()
	return share.Count
}

// RankOf returns the rank that reads a position of the batch, whose shares are scattered.
func (r BatchOrder) RankOf(ctx context.Context, position uint64) (uint64, error) {
	b := r.batch
	positions := b.Global()
	place := position - positions.First
	if r.division != nil {
		return r.division.RankOf(uint32(place)), nil
	}
	if _, ok := b.Buckets(); !ok {
		return r.epoch.HomeRank(positions, int(place), b.WorldSize, b.Homes), nil
	}
	former, err := r.former(ctx, Positions(positions))
	return r.epoch.HomeRankAt(former, int(place), b.WorldSize, b.Homes), err
}
