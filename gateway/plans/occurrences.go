package plans

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// maxOccurrences bounds the number of occurrences in a response. A sample may occur many times per
// epoch, if padding repeats a dataset that is smaller than a batch, or if importance draws it
// often.
const (
	maxOccurrences  = 1 << 16
	occurrenceBytes = 128 // memory of an occurrence, including its JSON

	maxEpochs = 1000 // epochs per request: each must be prepared
)

// OccurrenceQuery requests the positions of a sample in a range of epochs.
type OccurrenceQuery struct {
	Sample address.Sample
	Plan   address.Plan
	In     Epochs
	Ranked bool // include ranks
}

// OccurrenceNames lists the query parameters of an OccurrenceQuery.
func OccurrenceNames() []string {
	return append(address.NamesOf(address.Order|address.Choice|address.Batching|address.Sharing), "key", "shard", "epochs")
}

// DecodeOccurrenceQuery decodes an OccurrenceQuery from the query of a URL.
func DecodeOccurrenceQuery(q *address.Query, d address.Dataset) OccurrenceQuery {
	s := OccurrenceQuery{Sample: address.DecodeSample(q, d), In: decodeEpochs(q), Ranked: q.Has("world_size")}
	s.Plan = address.DecodePlan(q, d)
	return s
}

// decodeEpochs parses epochs=: "3" or "0-9".
func decodeEpochs(q *address.Query) (e Epochs) {
	if !q.Given("epochs") {
		q.Fail("epochs", "missing")
		return e
	}
	if !q.Has("epochs") {
		return e
	}
	first, last, ranged := strings.Cut(q.Value("epochs"), "-")
	before := len(q.Faults())
	e.First = q.Decimal("epochs", first, 0, math.MaxUint64)
	e.Last = e.First
	if ranged {
		e.Last = q.Decimal("epochs", last, 0, math.MaxUint64)
	}
	switch {
	case len(q.Faults()) > before:
	case e.Last < e.First:
		q.Fail("epochs", "the last epoch is below the first")
	case e.Last-e.First >= maxEpochs:
		q.Fail("epochs", "must be at most %d epochs at a time", maxEpochs)
	}
	return e
}

// Occurrence is one delivery of a sample.
type Occurrence struct {
	Epoch    uint64 `json:"epoch"`
	Batch    uint64 `json:"batch"`
	Position uint64 `json:"position"`

	Rank *uint64 `json:"rank,omitempty"` // rank that reads it; nil: not requested
}

// Epochs is a range of epochs, both ends included.
type Epochs struct{ First, Last uint64 }

// Occurrences returns the deliveries of a sample in some epochs, by inverting the order.
func (p *Plans) Occurrences(ctx context.Context, held *Holds, d *Dataset, a address.Plan, sample uint64, in Epochs) ([]Occurrence, error) {
	if d.mixture != nil {
		return p.mixedOccurrences(ctx, held, d, a, sample, in)
	}
	if in.Last-in.First >= maxEpochs {
		return nil, address.Refuse(address.Invalid, "dataset %s has %d epochs in these epochs, more than %d: request fewer", d.Name(), in.Last-in.First+1, maxEpochs)
	}
	plan, c, err := p.plan(ctx, held, d, a)
	if err != nil {
		return nil, err
	}
	s, err := c.seek(ctx, d, plan, sample)
	if err != nil {
		return nil, err
	}
	most := (in.Last - in.First + 1) * s.most
	if most > 0 {
		most *= mostDeliveries(a)
	}
	if err := checkArranged(a, most); err != nil {
		return nil, err
	}
	if most > maxOccurrences {
		return nil, address.Refuse(address.Invalid,
			"the sample occurs up to %d times in these epochs, but a response can list at most %d: request fewer epochs", most, maxOccurrences)
	}
	if err := held.Add(p.memory.Reserve(ctx, d.epochBytes(a.Params)+int64(most)*occurrenceBytes)); err != nil {
		return nil, err
	}
	found := []Occurrence{}
	for epoch := in.First; ; epoch++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("occurrences in epoch %d: %w", epoch, err)
		}
		at, err := p.deliveredAt(ctx, d, a, plan.Epoch(epoch), s)
		if err != nil {
			return nil, err
		}
		for _, position := range at {
			found = append(found, Occurrence{Epoch: epoch, Batch: position / a.BatchSize, Position: position})
		}
		if epoch == in.Last {
			return found, nil
		}
	}
}

// mixedOccurrences returns the deliveries of a sample of a mixture's index, from all sources that
// are parts of its dataset.
func (p *Plans) mixedOccurrences(ctx context.Context, held *Holds, d *Dataset, a address.Plan, sample uint64, in Epochs) ([]Occurrence, error) {
	m, err := d.mixture.order(a.Params.Seed)
	if err == nil {
		err = checkEpoch(m, in.Last)
	}
	if err != nil {
		return nil, err
	}
	x := d.Index.(*mixtureIndex)
	part, found := x.partOf(sample), []Occurrence{}
	before, after := m.Counts(in.First, 0), m.Counts(in.Last, m.Samples())
	for i, s := range d.mixture.sources {
		if s.Dataset != d.mixture.sources[part].Dataset || after[i] == before[i] {
			continue
		}
		own := d.mixture.sourcePlan(m, a.Params, i)
		own.Samples, own.BatchSize, own.Tail = s.Samples, 1, shuffle.Short
		all, err := p.Occurrences(ctx, held, s.Dataset, own, sample-x.samples[part], Epochs{before[i] / s.Samples, (after[i] - 1) / s.Samples})
		if err != nil {
			return nil, err
		}
		if err := checkArranged(a, uint64(len(all))); err != nil {
			return nil, err
		}
		for _, o := range all {
			n := o.Epoch*s.Samples + o.Position
			if n < before[i] || n >= after[i] {
				continue
			}
			epoch, at, _ := m.Find(i, n)
			if at, err = p.later(ctx, d, a, epoch, at); err != nil {
				return nil, err
			}
			for end, samples := delivered(a); at < end; at += samples {
				found = append(found, Occurrence{Epoch: epoch, Batch: at / a.BatchSize, Position: at})
			}
		}
	}
	slices.SortFunc(found, func(a, b Occurrence) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Position, b.Position))
	})
	return found, nil
}

// maxArranged bounds the samples of the blocks that must be sorted to find occurrences.
const maxArranged = 4 * shuffle.MaxBlock

// checkArranged rejects a request for too many occurrences in blocks.
func checkArranged(a address.Plan, occurrences uint64) error {
	if _, ok := a.Buckets(); !ok || occurrences <= max(1, maxArranged/(a.Bucket*a.BatchSize)) {
		return nil
	}
	return address.Refuse(address.Invalid, "finding %d occurrences requires sorting as many blocks of buckets: request fewer epochs", occurrences)
}

// deliveredAt returns the positions at which an epoch delivers a sample, ascending.
func (p *Plans) deliveredAt(ctx context.Context, d *Dataset, a address.Plan, epoch *shuffle.Epoch, s target) ([]uint64, error) {
	if s.most == 0 {
		return nil, nil
	}
	end, samples := delivered(a)
	var out []uint64
	for _, at := range s.positions(epoch) {
		at, err := p.later(ctx, d, a, epoch.Number(), at)
		if err != nil {
			return nil, err
		}
		for ; at < end; at += samples { // the position in the order, then each position where the sample pads the last batch
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out, nil
}

// mostDeliveries bounds the deliveries per position of the order.
func mostDeliveries(a address.Plan) uint64 {
	end, samples := delivered(a)
	return end/samples + 1
}

// delivered returns the number of positions that an epoch delivers, including padding, and the
// number of samples, which is at least one because the key was found.
func delivered(a address.Plan) (end, samples uint64) {
	b := a.Batching()
	if b.Tail == shuffle.Short {
		return b.Samples, b.Samples
	}
	return b.Batches() * b.BatchSize, b.Samples
}
