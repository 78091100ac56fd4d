package gateway

import (
	"context"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// getDraws sends the picture data of an epoch: the chunks that its batches draw from.
func (g *Gateway) getDraws(x *exchange) error {
	a, in, err := g.decodeDraws(x)
	if err != nil {
		return err
	}
	bytes := plans.PictureBytes(a.dataset.Dataset, a.Plan, in)
	return g.answerDescription(x, a, "draws "+in.String(), plans.PictureURL(a.Batch, in), bytes, func(ctx context.Context) (any, error) {
		return g.plans.Picture(ctx, &x.held, a.dataset.Dataset, a.Batch, in)
	})
}

// decodeDraws decodes the address of a picture and rejects batches past the end of the epoch.
func (g *Gateway) decodeDraws(x *exchange) (batchRequest, plans.Rectangle, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, plans.PictureNames()...)
	b, in := plans.DecodePicture(q, d.Dataset, chi.URLParam(x.r, "epoch"))
	a, err := g.resolve(x, q, b)
	if err == nil {
		err = d.RefuseMixture("a picture of chunks")
	}
	if err == nil {
		err = in.Complete(a.Batch)
	}
	return a, in, err
}
