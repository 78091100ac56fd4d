package gateway

import (
	"net/http"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// Limits of a request that stores a subset.
const (
	maxSubset   = 64 << 20 // size of the body in bytes
	subsetTimes = 6        // memory per byte of the body
)

// postSubset stores a subset that is given by keys, or whose text is too long for a URL. It is
// idempotent, on any gateway: the same samples give the same name.
func (g *Gateway) postSubset(x *exchange) error {
	d := x.dataset
	if err := d.Address.Check(address.ParseQuery(x.r.URL.RawQuery, "generation")); err != nil {
		return err
	}
	sent, err := g.toStore(x, "subset", maxSubset, subsetTimes)
	if err != nil {
		return err
	}
	var wish struct {
		Keys   []string `json:"keys"`
		Subset string   `json:"subset"`
	}
	if err := decodeJSON(sent, &wish); err != nil {
		return err
	}
	if (len(wish.Keys) > 0) == (wish.Subset != "") {
		return invalid("the body must have either keys, a non-empty list, or subset")
	}
	if err := g.await(x, &x.held, d.KeepBytes()); err != nil {
		return err
	}
	var kept plans.StoredSubset
	if wish.Subset != "" {
		kept, err = g.plans.KeepText(x.r.Context(), d.Dataset, wish.Subset)
	} else {
		kept, err = g.plans.KeepKeys(x.r.Context(), d.Dataset, wish.Keys)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if kept.New {
		status = http.StatusCreated
	}
	return sendJSONStatus(x, status, kept)
}

// toStore returns the body of a request that stores an object of a dataset.
func (g *Gateway) toStore(x *exchange, what string, limit, times int64) ([]byte, error) {
	if err := x.dataset.RefuseMixture("a stored " + what); err != nil {
		return nil, err
	}
	if x.dataset.Selection == nil {
		return nil, address.Refuse(address.NotFound, "this gateway stores no %ss for the dataset", what)
	}
	if err := g.refuseDraining(); err != nil {
		return nil, err
	}
	return g.body(x, limit, times)
}
