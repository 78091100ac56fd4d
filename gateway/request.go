package gateway

import (
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
)

// asked is what a request asks for: a batch or an epoch of a dataset.
type asked struct {
	*dataset
	address.Batch
}

// answer is the body that the batch is to have.
func (a asked) answer() body.Answer {
	return body.Answer{Dataset: a.dataset.Dataset, View: a.View, ETag: a.ETag()}
}

// decodeEpoch reads the address of an epoch.
func (g *Gateway) decodeEpoch(x *exchange) (asked, error) {
	defer x.log.Spent(timing.Resolve, time.Now())
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, address.BatchNames()...)
	return g.resolve(x, d, q, address.DecodeEpoch(q, d.Address, chi.URLParam(x.r, "epoch")))
}

// decodeBatch reads the address of a batch, and refuses one past the end of its epoch.
func (g *Gateway) decodeBatch(x *exchange) (asked, error) {
	defer x.log.Spent(timing.Resolve, time.Now())
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, address.BatchNames()...)
	a, err := g.resolve(x, d, q, address.DecodeBatch(q, d.Address, chi.URLParam(x.r, "epoch"), chi.URLParam(x.r, "batch")))
	if err != nil {
		return a, err
	}
	x.log.setBatch(a.Number)
	return a, a.CheckEnd()
}

// resolve ends the decoding of an address: it refuses a query with faults, and completes the plan.
func (g *Gateway) resolve(x *exchange, d *dataset, q *address.Query, b address.Batch) (asked, error) {
	if err := d.Address.Check(q); err != nil {
		return asked{}, err
	}
	if err := g.plans.Complete(x.r.Context(), d.Dataset, &b.Plan); err != nil {
		return asked{}, err
	}
	x.log.setPlan(b)
	return asked{d, b}, nil
}

// checkFields refuses parts that no sample has.
func (x *exchange) checkFields(d *dataset, v address.View) error {
	defer x.log.Spent(timing.Resolve, time.Now())
	return d.CheckFields(x.r.Context(), v)
}

// checkSplit refuses shares by homes that the dataset cannot have.
func (g *Gateway) checkSplit(x *exchange, a asked) error {
	defer x.log.Spent(timing.Plan, time.Now())
	return g.plans.CheckSplit(x.r.Context(), a.dataset.Dataset, a.Plan)
}

// accept joins the lines of the Accept header.
func (x *exchange) accept() string { return strings.Join(x.r.Header.Values("Accept"), ",") }
