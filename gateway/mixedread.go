package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/millrace-data/millrace/shuffle"
)

// maxOwnEpochs bounds how many epochs of its sources one batch of a mixture may go through: each has to be prepared.
const maxOwnEpochs = 64

// ownEpoch names an epoch of one source.
type ownEpoch struct {
	source int
	epoch  uint64
}

// mixedReading is where the reader of a batch of a mixture stands, with the epochs of the sources that its samples are of.
type mixedReading struct {
	turns  []shuffle.Turn // of the positions that have to be located
	epochs map[ownEpoch]*shuffle.Epoch
	plans  map[ownEpoch]*shuffle.Plan
}

// mixedReading is reading for a mixture.
func (g *Gateway) mixedReading(ctx context.Context, b batchRequest) (_ reading, err error) {
	m, err := b.dataset.mixture.order(b.params.Seed)
	if err != nil {
		return reading{}, err
	}
	if err := b.checkEpoch(m); err != nil {
		return reading{}, err
	}
	_, all := b.share()
	r := &mixedReading{turns: turnsOf(m, b.epoch, all), epochs: map[ownEpoch]*shuffle.Epoch{}, plans: map[ownEpoch]*shuffle.Plan{}}
	var leaves []func()
	leave := func() {
		for _, l := range leaves {
			l()
		}
	}
	ended := false
	defer func() {
		if !ended { // an error, or a panic
			leave()
		}
	}()
	for _, t := range r.turns {
		at := ownEpoch{t.Source, t.Epoch}
		if r.epochs[at] != nil {
			continue
		}
		if len(r.epochs) >= maxOwnEpochs+m.Sources() {
			return reading{}, &problem{
				Status: http.StatusBadRequest, Code: codeBatchTooLarge,
				Detail: fmt.Sprintf("the batch goes through more than %d epochs of its sources: ask for smaller batches", maxOwnEpochs),
			}
		}
		key := planKey{dataset: b.dataset.mixture.sources[t.Source].dataset, params: sourceParams(m, b.params, t.Source), epoch: t.Epoch, isEpoch: true}
		plan, epoch, end, err := g.plans.epoch(ctx, key, choice{})
		if err != nil {
			return reading{}, err
		}
		leaves = append(leaves, end)
		r.epochs[at], r.plans[at] = epoch, plan
	}
	ended = true
	return reading{Cursor: shuffle.Cursor{Parts: r.cursors(m, b)}, mixed: r, leave: leave}, nil
}

// turnsOf returns the sources of the positions of a share, those that pad its batch included.
func turnsOf(m *shuffle.Mixture, epoch uint64, share shuffle.Share) []shuffle.Turn {
	turns := make([]shuffle.Turn, 0, share.Count)
	for at, left := share.First, share.Count; left > 0; {
		lo := at % m.Samples()
		n := min(left, m.Samples()-lo)
		turns = m.Append(turns, epoch, lo, lo+n)
		at, left = at+n, left-n
	}
	return turns
}

// cursors says where the reader stands in each source: at his batch's first own position there, in batches of the size that the
// source's share of a batch has.
func (r *mixedReading) cursors(m *shuffle.Mixture, b batchRequest) []shuffle.Cursor {
	first := b.batch * b.batchSize
	before, after := m.Counts(b.epoch, first), m.Counts(b.epoch, min(first+b.batchSize, b.samples))
	total := uint64(0)
	for _, s := range b.dataset.mixture.sources {
		total += s.Weight
	}
	out := make([]shuffle.Cursor, len(before))
	for i, s := range b.dataset.mixture.sources {
		at := ownEpoch{i, before[i] / s.Samples}
		if r.epochs[at] == nil {
			continue // nothing is read of it, or only what pads the batch
		}
		own, size := before[i]%s.Samples, s.PerBatch
		if size == 0 {
			size = max(1, uint64(float64(b.batchSize)*float64(s.Weight)/float64(total))) // only speed depends on it
		}
		out[i] = shuffle.Cursor{
			Plan: r.plans[at], Epoch: r.epochs[at], First: own, End: min(own+after[i]-before[i], s.Samples), BatchSize: size,
			Rank: b.rank, WorldSize: b.worldSize, Dealt: true, Tail: b.tail,
		}
	}
	return out
}

// appendNumbers appends the numbers of the samples, in the mixture's index.
func (r *mixedReading) appendNumbers(dst []uint64, x *mixedIndex) []uint64 {
	for _, t := range r.turns {
		dst = append(dst, x.samples[t.Source]+r.epochs[ownEpoch{t.Source, t.Epoch}].At(t.Position))
	}
	return dst
}
