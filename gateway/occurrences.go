package gateway

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/shuffle"
)

// maxEpochs bounds the epochs of one question for occurrences: each has to be prepared. maxOccurrences
// bounds the answer: where a batch is larger than the dataset, padding delivers a sample many times an epoch, and so does
// importance a heavy one.
const (
	maxEpochs       = 1000
	maxOccurrences  = 1 << 16
	occurrenceBytes = 128 // in memory and as JSON
)

// occurrence is one place at which a sample is delivered.
type occurrence struct {
	Epoch    uint64 `json:"epoch"`
	Batch    uint64 `json:"batch"`
	Position uint64 `json:"position"`
}

// getOccurrences answers where a sample comes in some epochs: the order, inverted.
func (g *Gateway) getOccurrences(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, append(planNames(), "key", "shard", "epochs")...)
	name := decodeSampleName(q)
	lo, hi := q.epochs()
	p := decodePlan(q, d)
	if err := d.check(q); err != nil {
		return err
	}
	if err := g.complete(x.r.Context(), &p); err != nil {
		return err
	}
	if err := d.refuseMixture("where a sample comes"); err != nil {
		return err
	}
	n, err := findSample(x, d, name)
	if err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	c, leaveChoice, err := g.choose(x.r.Context(), p)
	if err != nil {
		return err
	}
	defer leaveChoice()
	plan, leave, err := g.plans.plan(x.r.Context(), d, p.params, c)
	if err != nil {
		return err
	}
	defer leave()
	s, err := c.seek(x.r.Context(), d, plan, n)
	if err != nil {
		return err
	}
	most := (hi - lo + 1) * s.most(c)
	if most > 0 {
		most *= p.mostDeliveries()
	}
	if most > maxOccurrences {
		return invalid("the sample comes up to %d times in these epochs; at most %d are listed at a time", most, maxOccurrences)
	}
	release, err := g.reserve(x.r.Context(), d.epochBytes(p.params)+int64(most)*occurrenceBytes)
	if err != nil {
		return err
	}
	defer release()
	found, err := p.occurrences(x.r.Context(), plan, lo, hi, s)
	if err != nil {
		return err
	}
	x.w.Header().Set("Cache-Control", describingControl(p.pinned))
	return sendJSON(x, map[string]any{"occurrences": found})
}

// occurrences lists where the epochs from lo to hi deliver a sample.
func (p planRequest) occurrences(ctx context.Context, plan *shuffle.Plan, lo, hi uint64, s sought) ([]occurrence, error) {
	found := []occurrence{}
	for epoch := lo; ; epoch++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("occurrences in epoch %d: %w", epoch, err)
		}
		for _, position := range p.deliveredAt(plan, epoch, s) {
			found = append(found, occurrence{epoch, position / p.batchSize, position})
		}
		if epoch == hi {
			return found, nil
		}
	}
}

// deliveredAt returns the positions at which an epoch delivers a sample, ascending.
func (p planRequest) deliveredAt(plan *shuffle.Plan, epoch uint64, s sought) []uint64 {
	if s.never {
		return nil
	}
	var out []uint64
	for _, at := range s.positions(plan.Epoch(epoch)) {
		out = append(out, p.deliveries(at)...)
	}
	slices.Sort(out)
	return out
}

// deliveries returns the positions at which the sample of one position of the order is delivered: there unless the tail is
// dropped, and again wherever it pads the last batch.
func (p planRequest) deliveries(at uint64) []uint64 {
	end, samples := p.delivered()
	var out []uint64
	for ; at < end; at += samples {
		out = append(out, at)
	}
	return out
}

// mostDeliveries bounds how often an epoch delivers one sample.
func (p planRequest) mostDeliveries() uint64 {
	end, samples := p.delivered()
	return end/samples + 1
}

// delivered returns how many positions an epoch delivers, padding included, and how many samples there are: at least one,
// or no key would have been found.
func (p planRequest) delivered() (end, samples uint64) {
	b := p.batching()
	if b.Tail == shuffle.Short {
		return b.Samples, b.Samples
	}
	return b.Batches() * b.BatchSize, b.Samples
}

// epochs reads "3" or "0-9".
func (q *query) epochs() (lo, hi uint64) {
	s, given := q.values["epochs"]
	if !given {
		q.fail("epochs", "missing")
		return 0, 0
	}
	if s == "" {
		return 0, 0
	}
	first, last, ranged := strings.Cut(s, "-")
	if !ranged {
		last = first
	}
	before := len(q.faults)
	lo = q.decimal("epochs", first, 0, math.MaxUint64)
	if ranged {
		hi = q.decimal("epochs", last, 0, math.MaxUint64)
	} else {
		hi = lo
	}
	switch {
	case len(q.faults) > before:
	case hi < lo:
		q.fail("epochs", "the last is below the first")
	case hi-lo >= maxEpochs:
		q.fail("epochs", "at most %d at a time", maxEpochs)
	}
	return lo, hi
}
