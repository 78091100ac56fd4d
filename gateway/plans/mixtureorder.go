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

// sourceTurns are the positions of a mixture that one epoch of a source fills.
type sourceTurns struct {
	places  []int // indexes of the positions of the mixture
	numbers []uint64
}

// openMixture prepares the order of a batch of a mixture, for Order.
func (r *BatchOrder) openMixture(ctx context.Context, held *Holds) (err error) {
	if r.mixture, err = r.dataset.mixture.order(r.batch.Params.Seed); err != nil {
		return err
	}
	if err = checkEpoch(r.mixture, r.batch.Epoch); err == nil && r.batch.At == nil {
		r.Parts, err = r.cursors(ctx, held)
	}
	return err
}

// source acquires the order of one epoch of a source.
func (r *BatchOrder) source(ctx context.Context, held *Holds, at sourceEpoch) (order, error) {
	plan := r.dataset.mixture.sourcePlan(r.mixture, r.batch.Params, at.source)
	if r.original {
		plan.Quarantine = ""
	}
	return r.plans.order(ctx, held, r.dataset.mixture.sources[at.source].Dataset, plan, at.epoch)
}

// cursors returns the cursor of the batch in the order of each source. A cursor starts at the
// batch's first position in the source, and its batch size is the source's share of a batch. With
// buckets it is the cursor of the whole block.
func (r *BatchOrder) cursors(ctx context.Context, held *Holds) ([]shuffle.Cursor, error) {
	b := r.batch
	first := b.Number * b.BatchSize
	end := min(first+b.BatchSize, b.Samples)
	if buckets, ok := b.Buckets(); ok {
		if block, ok := buckets.Block(first); ok {
			first, end = buckets.Range(block)
		}
	}
	before, after := r.mixture.Counts(b.Epoch, first), r.mixture.Counts(b.Epoch, end)
	out := make([]shuffle.Cursor, len(before))
	for i, s := range r.dataset.mixture.sources {
		if after[i] == before[i] {
			continue // the batch reads no samples of this source, except padding
		}
		o, err := r.source(ctx, held, sourceEpoch{i, before[i] / s.Samples})
		if err != nil {
			return nil, err
		}
		own, size := before[i]%s.Samples, s.PerBatch
		if size == 0 {
			size = after[i] - before[i] // other batches may have one more or less, which affects only speed
		}
		out[i] = shuffle.Cursor{
			Plan: o.plan, Epoch: o.epoch, First: own, End: min(own+after[i]-before[i], s.Samples), BatchSize: size,
			Rank: b.Rank, WorldSize: b.WorldSize, Dealt: true, Tail: b.Tail,
		}
	}
	return out, nil
}

// appendMixed appends the samples of a mixture, by their numbers in its index, at some positions.
// Positions past the end of the epoch are padding.
func (r *BatchOrder) appendMixed(ctx context.Context, dst, positions []uint64) ([]uint64, error) {
	turns := map[sourceEpoch]*sourceTurns{}
	for i, at := range positions {
		t := r.mixture.At(r.batch.Epoch, at%r.mixture.Samples())
		of := sourceEpoch{t.Source, t.Epoch}
		s := turns[of]
		if s == nil {
			if len(turns) >= maxSourceEpochs+r.mixture.Sources() {
				return nil, address.Refuse(address.TooLarge,
					"the batch requires more than %d epochs of a source: request smaller batches", maxSourceEpochs)
			}
			s = &sourceTurns{}
			turns[of] = s
		}
		s.places, s.numbers = append(s.places, i), append(s.numbers, t.Position)
	}
	begin, x := len(dst), r.dataset.Index.(*mixtureIndex)
	dst = append(dst, positions...)
	for of, s := range turns {
		if err := r.resolveSource(ctx, of, s.numbers); err != nil {
			return nil, err
		}
		for i, place := range s.places {
			dst[begin+place] = x.samples[of.source] + s.numbers[i]
		}
	}
	return dst, nil
}

// resolveSource replaces positions in an epoch of a source by the samples at them.
func (r *BatchOrder) resolveSource(ctx context.Context, of sourceEpoch, positions []uint64) error {
	var held Holds
	defer held.Drop()
	o, err := r.source(ctx, &held, of)
	if err != nil {
		return err
	}
	for i, at := range positions {
		positions[i] = o.epoch.At(at)
	}
	_, err = o.resolve(ctx, positions)
	return err
}
