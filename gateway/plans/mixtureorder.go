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

// mixtureOrder is the order of one batch of a mixture, with the epochs of its sources.
type mixtureOrder struct {
	turns  []shuffle.Turn // turns of the positions to locate
	epochs map[sourceEpoch]*shuffle.Epoch
	plans  map[sourceEpoch]*shuffle.Plan
	parts  map[int]choice // choices by source
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
	r := &mixtureOrder{turns: turnsOf(m, b), epochs: map[sourceEpoch]*shuffle.Epoch{}, plans: map[sourceEpoch]*shuffle.Plan{}, parts: map[int]choice{}}
	for _, t := range r.turns {
		at := sourceEpoch{t.Source, t.Epoch}
		if r.epochs[at] != nil {
			continue
		}
		if len(r.epochs) >= maxSourceEpochs+m.Sources() {
			return BatchOrder{}, address.Refuse(address.TooLarge,
				"the batch requires more than %d epochs of a source: request smaller batches", maxSourceEpochs)
		}
		own, source := d.mixture.sourcePlan(m, b.Params, t.Source), d.mixture.sources[t.Source].Dataset
		if _, known := r.parts[t.Source]; !known {
			if r.parts[t.Source], err = p.choose(ctx, held, source, own); err != nil {
				return BatchOrder{}, err
			}
		}
		v, err := p.epoch(ctx, held, key{dataset: source, params: own.Params, epoch: t.Epoch})
		if err != nil {
			return BatchOrder{}, err
		}
		r.epochs[at], r.plans[at] = v.epoch, v.plan
	}
	reading := BatchOrder{dataset: d, mixed: r}
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
	total := uint64(0)
	for _, s := range of.sources {
		total += s.Weight
	}
	out := make([]shuffle.Cursor, len(before))
	for i, s := range of.sources {
		at := sourceEpoch{i, before[i] / s.Samples}
		if r.epochs[at] == nil {
			continue // the batch reads no samples of this source, except padding
		}
		own, size := before[i]%s.Samples, s.PerBatch
		if size == 0 {
			size = max(1, uint64(float64(b.BatchSize)*float64(s.Weight)/float64(total))) // a rounded size, which affects only speed
		}
		out[i] = shuffle.Cursor{
			Plan: r.plans[at], Epoch: r.epochs[at], First: own, End: min(own+after[i]-before[i], s.Samples), BatchSize: size,
			Rank: b.Rank, WorldSize: b.WorldSize, Dealt: true, Tail: b.Tail,
		}
	}
	return out
}

// appendNumbers appends the sample numbers in the mixture's index.
func (r *mixtureOrder) appendNumbers(ctx context.Context, dst []uint64, x *mixtureIndex) ([]uint64, error) {
	begin := len(dst)
	for _, t := range r.turns {
		dst = append(dst, r.epochs[sourceEpoch{t.Source, t.Epoch}].At(t.Position))
	}
	for at, epoch := range r.epochs {
		if err := r.resolve(ctx, at, epoch, dst[begin:], x); err != nil {
			return nil, err
		}
	}
	for i, t := range r.turns {
		dst[begin+i] += x.samples[t.Source]
	}
	return dst, nil
}

// resolve converts the numbers of a source's plan into samples of the source, if the source has a
// subset or quarantine.
func (r *mixtureOrder) resolve(ctx context.Context, at sourceEpoch, epoch *shuffle.Epoch, all []uint64, x *mixtureIndex) error {
	c := r.parts[at.source]
	if !c.virtual() && c.quarantine == nil {
		return nil
	}
	var own []uint64
	var places []int
	for i, t := range r.turns {
		if t.Source == at.source && t.Epoch == at.epoch {
			own, places = append(own, all[i]), append(places, i)
		}
	}
	if _, err := c.resolve(ctx, x.parts[at.source].First(), r.plans[at], epoch, own); err != nil {
		return err
	}
	for i, place := range places {
		all[place] = own[i]
	}
	return nil
}
