package gateway

import (
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// getEpoch describes an epoch under a plan.
func (g *Gateway) getEpoch(x *exchange) error {
	a, err := g.decodeEpoch(x)
	if err != nil {
		return err
	}
	if err := g.checkSharing(x, a); err != nil {
		return err
	}
	h := x.w.Header()
	etag := a.DescriptionETag("epoch " + a.Name())
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.describing(a.Pinned))
	h.Set("Content-Location", a.EpochURL(a.Epoch))
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	release, err := g.await(x, plans.DescribeBytes(a.dataset.Dataset, a.Plan))
	if err != nil {
		return err
	}
	defer release()
	free, err := g.place(x.r.Context(), x)
	if err != nil {
		return err
	}
	defer free()
	before := x.log.Enter(timing.Plan)
	info, err := g.plans.Describe(x.r.Context(), a.dataset.Dataset, a.Batch)
	x.log.Leave(before)
	if err != nil {
		return err
	}
	return sendJSON(x, info)
}
