package gateway

import (
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
)

// getOccurrences sends the positions of a sample in a range of epochs, by inverting the order.
func (g *Gateway) getOccurrences(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, plans.OccurrenceNames()...)
	s := plans.DecodeOccurrenceQuery(q, d.Address)
	if err := d.Address.Check(q); err != nil {
		return err
	}
	if err := g.plans.Complete(x.r.Context(), d.Dataset, &s.Plan); err != nil {
		return err
	}
	n, err := findSample(x, d, s.Sample)
	if err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	free, err := g.place(x.r.Context(), x)
	if err != nil {
		return err
	}
	defer free()
	found, err := g.plans.Occurrences(x.r.Context(), &x.held, d.Dataset, s.Plan, n, s.In)
	if err != nil {
		return err
	}
	if s.Ranked {
		if err := g.addRanks(x, s.Plan, found); err != nil {
			return err
		}
	}
	if s.Plan.Pinned {
		x.w.Header().Set("Cache-Control", x.describing(true))
	}
	return sendJSON(x, map[string]any{"occurrences": found})
}

// addRanks adds the rank of each occurrence. If shares are scattered, each occurrence costs the
// same as locating a global batch, at most.
func (g *Gateway) addRanks(x *exchange, a address.Plan, found []plans.Occurrence) error {
	d := x.dataset.Dataset
	if b := (address.Batch{Plan: a}); a.Scattered() {
		if err := checkWork(time.Duration(len(found))*body.Work(d, b, b.Global().Count), maxWork); err != nil {
			return err
		}
		if err := g.await(x, &x.held, plans.PlanningBytes(d, b, 0)); err != nil {
			return err
		}
	}
	return body.AddRanks(x.r.Context(), g.plans, d, a, found)
}
