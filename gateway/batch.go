package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// retryDraining is when a client should ask another gateway.
const retryDraining = time.Second

// getBatch answers with one rank's share of a global batch.
func (g *Gateway) getBatch(x *exchange) error {
	a, err := g.decodeBatch(x)
	if err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if err := a.View.Negotiate(x.accept(), a.Address.Forms); err != nil {
		return err
	}
	if err := x.checkFields(a.dataset, a.View); err != nil {
		return err
	}
	return g.answerBatch(x, a)
}

// answerBatch answers with a batch in the form that is settled.
func (g *Gateway) answerBatch(x *exchange, a asked) error {
	answer := a.answer()
	return g.answerShare(x, a, address.Body, answer.ETag, func(r plans.Reading, b *body.Body) error {
		if err := g.lay(x.r.Context(), x, answer, b); err != nil {
			return err
		}
		return g.send(x, a.dataset, answer, r.Cursor, b)
	})
}

// answerShare sets the headers that follow from the address alone. Where they do not suffice, it locates the samples
// and calls send.
func (g *Gateway) answerShare(
	x *exchange, a asked, resource address.Resource, etag string, send func(plans.Reading, *body.Body) error,
) error {
	share, positions := a.Share()
	if err := body.CheckShare(positions); err != nil {
		return err
	}
	if err := g.checkSplit(x, a); err != nil {
		return err
	}
	h := x.w.Header()
	describeBatch(x, a.Batch, resource, etag)
	h.Set("Millrace-Samples", strconv.FormatUint(share.Count, 10))
	if !a.Scattered() {
		h.Set("Millrace-Padded", strconv.FormatUint(share.Padded, 10))
	}
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	work := g.work(a, 1)
	if resource == address.Manifest {
		work *= manifestSamples
	}
	if err := checkWork(work, maxWork); err != nil {
		return err
	}
	release, err := g.await(x, planningBytes(a))
	if err != nil {
		return err
	}
	defer release()
	r, b, leave, err := g.locate(x.r.Context(), x, a)
	if err != nil {
		return err
	}
	defer leave()
	if a.Scattered() {
		h.Set("Millrace-Padded", strconv.FormatUint(b.Padded(a.Samples), 10))
	}
	return send(r, b)
}

// planningBytes is the memory to locate and lay out the samples of a batch.
func planningBytes(a asked) int64 {
	share, _ := a.Share()
	return plans.PlanningBytes(a.dataset.Dataset, a.Batch) + body.LayBytes(a.dataset.Dataset, a.View, share.Count)
}

// refuseDraining refuses new work once the lame-duck time is over.
func (g *Gateway) refuseDraining() error {
	if _, over := g.draining(); !over {
		return nil
	}
	return &problem{
		Status: http.StatusServiceUnavailable, Code: codeDraining, Retryable: true, RetryAfter: retryDraining,
		Detail: "this gateway is shutting down; ask another one",
	}
}

// locate prepares the epoch of a batch and finds its samples. leave ends the use of both.
func (g *Gateway) locate(ctx context.Context, x *exchange, a asked) (_ plans.Reading, _ *body.Body, leave func(), err error) {
	free, err := g.place(ctx, x)
	if err != nil {
		return plans.Reading{}, nil, nil, err
	}
	defer free()
	defer x.log.Spent(timing.Plan, time.Now())
	r, err := g.plans.Read(ctx, a.dataset.Dataset, a.Batch)
	if err != nil {
		return r, nil, nil, err
	}
	located := false
	defer func() {
		if !located { // an error, or a panic
			r.Leave()
		}
	}()
	b := g.bodies.Get()
	if err := b.Locate(ctx, a.Index, r, a.Batch); err != nil {
		return r, nil, nil, err
	}
	located = true
	return r, b, func() { g.bodies.Put(b); r.Leave() }, nil
}

// place takes a place to plan in, with its time on the access line.
func (g *Gateway) place(ctx context.Context, x *exchange) (leave func(), err error) {
	defer x.log.Spent(timing.Wait, time.Now())
	return g.places.Take(ctx)
}

// lay lays located samples out.
func (g *Gateway) lay(ctx context.Context, x *exchange, answer body.Answer, b *body.Body) error {
	free, err := g.place(ctx, x)
	if err != nil {
		return err
	}
	defer free()
	defer x.log.Spent(timing.Lay, time.Now())
	return b.Lay(ctx, answer)
}

// describeBatch sets the headers of a batch that follow from its address alone.
func describeBatch(x *exchange, b address.Batch, resource address.Resource, etag string) {
	batches := b.Batching().Batches()
	describeEpoch(x, b, etag)
	h := x.w.Header()
	h.Set("Content-Location", b.URL(resource, b.Number))
	if b.Number+1 < batches {
		h.Set("Link", "<"+b.URL(resource, b.Number+1)+`>; rel="next"`)
	}
	if resource == address.Manifest {
		h.Set("Cache-Control", x.describing(b.Pinned))
	}
}

// describeEpoch sets the headers that all answers with batches have.
func describeEpoch(x *exchange, b address.Batch, etag string) {
	h := x.w.Header()
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.cacheControl(b.Pinned))
	h.Set("Millrace-Generation", b.Generation)
	h.Set("Millrace-Epoch", num(b.Epoch))
	h.Set("Millrace-Batch", num(b.Number))
	h.Set("Millrace-Batches", num(b.Batching().Batches()))
}
