package gateway

import (
	"context"

	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// answerEpoch describes an epoch under a plan.
func (g *Gateway) answerEpoch(x *exchange, a batchRequest) error {
	bytes := plans.DescribeBytes(a.dataset.Dataset, a.Plan)
	return g.answerDescription(x, a, "epoch "+a.Name(), a.EpochURL(a.Epoch), bytes, func(ctx context.Context) (any, error) {
		return g.plans.Describe(ctx, &x.held, a.dataset.Dataset, a.Batch)
	})
}

// answerDescription sends the result of describe. what distinguishes several descriptions of an
// epoch. describe may use the given number of bytes and runs in a planning slot.
func (g *Gateway) answerDescription(
	x *exchange, a batchRequest, what, location string, bytes int64, describe func(context.Context) (any, error),
) error {
	h := x.w.Header()
	etag := a.DescriptionETag(what)
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.describing(a.Pinned))
	h.Set("Content-Location", location)
	if answered, err := g.settled(x, etag); answered || err != nil {
		return err
	}
	if err := g.await(x, &x.held, bytes); err != nil {
		return err
	}
	free, err := g.place(x.r.Context(), x)
	if err != nil {
		return err
	}
	defer free()
	before := x.log.Enter(timing.Plan)
	info, err := describe(x.r.Context())
	x.log.Leave(before)
	if err != nil {
		return err
	}
	return sendJSON(x, info)
}
