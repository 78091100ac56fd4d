package gateway

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/gateway/address"
)

// getSnapshot describes a snapshot of weights.
func (g *Gateway) getSnapshot(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, "generation")
	name := chi.URLParam(x.r, "snapshot")
	if !address.IsDigest(name) {
		q.Fail("snapshot", "must be 64 hexadecimal digits in lower case")
	}
	if err := d.Address.Check(q); err != nil {
		return err
	}
	w, err := g.plans.OpenWeights(x.r.Context(), &x.held, d.Dataset, name)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%s-%d"`, name, address.DescriptionVersion)
	x.w.Header().Set("ETag", etag)
	x.w.Header().Set("Cache-Control", x.describing(true))
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	return sendJSON(x, w.Describe(d.Dataset))
}

// postSnapshot freezes the losses reported for an epoch. It is idempotent, on any gateway: the same
// losses give the same snapshot.
func (g *Gateway) postSnapshot(x *exchange) error {
	if err := g.checkWeighed(x); err != nil {
		return err
	}
	a, want, err := g.decodeFreeze(x)
	if err != nil {
		return err
	}
	d := x.dataset
	if err := g.await(x, &x.held, d.FreezeBytes()); err != nil {
		return err
	}
	want.Reporter = reporter(x)
	frozen, err := g.plans.Freeze(x.r.Context(), &x.held, d.Dataset, a.Batch, want)
	if err != nil {
		return err
	}
	w, err := g.plans.OpenWeights(x.r.Context(), &x.held, d.Dataset, frozen.Digest)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Location", "/v1/datasets/"+d.Name()+"/importance/"+frozen.Digest+"?generation="+d.Index.Generation())
	status := http.StatusOK
	if frozen.New {
		status = http.StatusCreated
	}
	return sendJSONStatus(x, status, w.Describe(d.Dataset))
}

// decodeFreeze decodes the request to freeze losses.
func (g *Gateway) decodeFreeze(x *exchange) (a batchRequest, want importance.FreezeRequest, err error) {
	sent, err := g.body(x, maxBody, 1)
	if err != nil {
		return a, want, err
	}
	var wish struct {
		URL      string   `json:"url"` // URL of the epoch, or of any batch in it
		HotShare *float64 `json:"hot_share"`
		Repeat   *uint32  `json:"repeat"`
	}
	if err := decodeJSON(sent, &wish); err != nil {
		return a, want, err
	}
	if err := g.acquireOf(x, wish.URL); err != nil {
		return a, want, err
	}
	q := &address.Query{}
	a, _, err = g.decodeURL(x, wish.URL, q)
	if err != nil {
		return a, want, err
	}
	if s := wish.HotShare; s != nil {
		if want.HotShare = *s; !(*s > 0 && *s <= 1) {
			q.Fail("hot_share", "must be above 0 and at most 1; with repeat=1 no sample would be preferred")
		}
	}
	if n := wish.Repeat; n != nil {
		if want.Repeat = *n; *n == 0 {
			q.Fail("repeat", "must be at least 1")
		}
	}
	return a, want, q.Err()
}
