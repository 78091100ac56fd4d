package gateway

import (
	"math"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// maxEpochs bounds the epochs of one question for occurrences: each has to be prepared.
const maxEpochs = 1000

// getOccurrences answers where a sample comes in some epochs: the order, inverted.
func (g *Gateway) getOccurrences(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, append(address.PlanNames(), "key", "shard", "epochs")...)
	s := decodeSample(q, d)
	in := decodeEpochs(q)
	p := address.DecodePlan(q, d.Address)
	if err := d.Address.Check(q); err != nil {
		return err
	}
	if err := g.plans.Complete(x.r.Context(), d.Dataset, &p); err != nil {
		return err
	}
	if err := d.RefuseMixture("where a sample comes"); err != nil {
		return err
	}
	n, err := findSample(x, d, s)
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
	found, err := g.plans.Occurrences(x.r.Context(), d.Dataset, p, n, in)
	if err != nil {
		return err
	}
	if p.Pinned {
		x.w.Header().Set("Cache-Control", x.describing(true))
	}
	return sendJSON(x, map[string]any{"occurrences": found})
}

// decodeEpochs reads epochs=: "3" or "0-9".
func decodeEpochs(q *address.Query) (e plans.Epochs) {
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
		q.Fail("epochs", "the last is below the first")
	case e.Last-e.First >= maxEpochs:
		q.Fail("epochs", "at most %d at a time", maxEpochs)
	}
	return e
}
