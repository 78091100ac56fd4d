package gateway

import (
	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// getDraws answers which chunks the batches of an epoch draw from, as a picture.
func (g *Gateway) getDraws(x *exchange) error {
	a, in, err := g.decodeDraws(x)
	if err != nil {
		return err
	}
	h := x.w.Header()
	etag := a.DescriptionETag("draws " + in.String())
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.describing(a.Pinned))
	h.Set("Content-Location", plans.PictureURL(a.Batch, in))
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	release, err := g.await(x, plans.PictureBytes(a.dataset.Dataset, a.Plan, in))
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
	picture, err := g.plans.Picture(x.r.Context(), a.dataset.Dataset, a.Batch, in)
	x.log.Leave(before)
	if err != nil {
		return err
	}
	return sendJSON(x, picture)
}

// decodeDraws reads the address of a picture, and refuses one that shows batches past the end of the epoch.
func (g *Gateway) decodeDraws(x *exchange) (batchRequest, plans.Rectangle, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, plans.PictureNames()...)
	b, in := plans.DecodePicture(q, d.Dataset, chi.URLParam(x.r, "epoch"))
	a, err := g.resolve(x, d, q, b)
	if err == nil {
		err = d.RefuseMixture("which chunks the batches draw from")
	}
	if err == nil {
		err = in.Complete(a.Batch)
	}
	return a, in, err
}
