package plans

import (
	"context"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// maxSourceEpochs bounds the source epochs of one batch of a mixture, because each must be
// prepared.
const maxSourceEpochs = 64

// sourceEpoch identifies an epoch of one source.
type sourceEpoch struct {
	source int
	epoch  uint64
}

// mixtureOrder is the order of one batch of a mixture, with the orders of its sources.
type mixtureOrder struct {
	turns  []shuffle.Turn // turns of the positions to locate
	orders map[sourceEpoch]*sourceOrder
}

// sourceOrder is the order of one epoch of a source.
type sourceOrder struct {
	order
	places []int // indexes of its turns
}

// orderOfMixture returns the order of a batch of a mixture, for Order.
func (p *Plans) orderOfMixture(ctx context.Context, held *Holds, d *Dataset, b address.Batch) (BatchOrder, error) {
	m, err := d.mixture.order(b.Params.Seed)
	if err != nil {
		return BatchOrder{}, err
	}
	if err := checkEpoch(m, b.Epoch); err != nil {
		return BatchOrder{}, err
	}
	r := &mixtureOrder{turns: turnsOf(m, b), orders: map[sourceEpoch]*sourceOrder{}}
	for i, t := range r.turns {
		at := sourceEpoch{t.Source, t.Epoch}
		o := r.orders[at]
		if o == nil {
			if len(r.orders) >= maxSourceEpochs+m.Sources() {
				return BatchOrder{}, address.Refuse(address.TooLarge,
					"the batch requires more than %d epochs of a source: request smaller batches", maxSourceEpochs)
			}
			o = &sourceOrder{}
			if o.order, err = p.order(ctx, held, d.mixture.sources[t.Source].Dataset, d.mixture.sourcePlan(m, b.Params, t.Source), t.Epoch); err != nil {
				return BatchOrder{}, err
			}
			r.orders[at] = o
		}
		o.places = append(o.places, i)
	}
	reading := BatchOrder{order: order{dataset: d}, mixed: r}
	if b.At == nil {
		reading.Parts = r.cursors(m, d.mixture, b)
	}
	return reading, nil
}

// turnsOf returns the sources of the positions of a batch, including padding.
func turnsOf(m *shuffle.Mixture, b address.Batch) []shuffle.Turn {
	_, share := b.Share()
	turns := make([]shuffle.Turn, 0, share.Count)
	for _, at := range b.At {
		turns = append(turns, m.At(b.Epoch, at))
	}
	if b.At != nil {
		return turns
	}
	for at, left := share.First, share.Count; left > 0; {
		lo := at % m.Samples()
		n := min(left, m.Samples()-lo)
		turns = m.Append(turns, b.Epoch, lo, lo+n)
		at, left = at+n, left-n
	}
	return turns
}

// cursors returns the cursor of the batch in the order of each source. A cursor starts at the
// batch's first position in the source, and its batch size is the source's share of a batch.
func (r *mixtureOrder) cursors(m *shuffle.Mixture, of *mixture, b address.Batch) []shuffle.Cursor {
	first := b.Number * b.BatchSize
	before, after := m.Counts(b.Epoch, first), m.Counts(b.Epoch, min(first+b.BatchSize, b.Samples))
	out := make([]shuffle.Cursor, len(before))
	for i, s := range of.sources {
		o := r.orders[sourceEpoch{i, before[i] / s.Samples}]
		if o == nil {
			continue // the batch reads no samples of this source, except padding
		}
		own, size := before[i]%s.Samples, s.PerBatch
		if size == 0 {
			size = max(1, after[i]-before[i]) // other batches may have one more or less, which affects only speed
		}
		out[i] = shuffle.Cursor{
			Plan: o.plan, Epoch: o.epoch, First: own, End: min(own+after[i]-before[i], s.Samples), BatchSize: size,
			Rank: b.Rank, WorldSize: b.WorldSize, Dealt: true, Tail: b.Tail,
		}
	}
	return out
}

// appendNumbers appends the sample numbers in the mixture's index.
func (r *mixtureOrder) appendNumbers(ctx context.Context, dst []uint64, x *mixtureIndex) ([]uint64, error) {
	begin := len(dst)
	dst = append(dst, make([]uint64, len(r.turns))...)
	for at, o := range r.orders {
		own := make([]uint64, len(o.places))
		for i, place := range o.places {
			own[i] = o.epoch.At(r.turns[place].Position)
		}
		if _, err := o.resolve(ctx, own); err != nil {
			return nil, err
		}
		for i, place := range o.places {
			dst[begin+place] = x.samples[at.source] + own[i]
		}
	}
	return dst, nil
}
