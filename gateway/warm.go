package gateway

import (
	"fmt"
	"math"

	"github.com/millrace-data/millrace/gateway/address"
)

// postWarm loads the chunks of an epoch from a position on, for about a second, and returns the next
// position.
func (g *Gateway) postWarm(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, append(address.PlanNames(), "epoch", "from")...)
	b := address.Batch{Plan: address.DecodePlan(q, d.Address), Epoch: q.Number("epoch", 0, 0, math.MaxUint64)}
	from := q.Number("from", 0, 0, d.Index.Samples())
	if err := d.Address.Check(q); err != nil {
		return err
	}
	if err := g.plans.Complete(x.r.Context(), d.Dataset, &b.Plan); err != nil {
		return err
	}
	if err := d.RefuseMixture("warming"); err != nil {
		return err
	}
	samples := b.Samples
	if from > samples {
		q.Fail("from", "must be at most %d", samples)
		return q.Err()
	}
	if x.r.ContentLength != 0 {
		return invalid("the query selects the batches to warm: send no body")
	}
	x.log.batch, x.log.hasEpoch = b, true
	if err := g.refuseDraining(); err != nil {
		return err
	}
	r, err := g.plans.Order(x.r.Context(), &x.held, d.Dataset, b)
	if err != nil {
		return err
	}
	answer := warmResult{Next: samples, Samples: samples, Done: true}
	if at := r.Cursor; from < samples {
		at.First, at.End = from, min(from+b.BatchSize, samples)
		w, err := d.source.Warm(x.r.Context(), at)
		if err != nil {
			return fmt.Errorf("warm epoch %d from position %d: %w", b.Epoch, from, err)
		}
		answer = warmResult{Next: w.Next, Samples: samples, Chunks: w.Chunks, Bytes: w.Bytes, Full: w.Full, Done: w.Next >= samples}
	}
	return sendJSON(x, answer)
}

// warmResult is the response to a warm request.
type warmResult struct {
	Next    uint64 `json:"next"`    // position of the next request
	Samples uint64 `json:"samples"` // positions in the epoch
	Chunks  int    `json:"chunks"`  // chunks loaded by this request
	Bytes   int64  `json:"bytes"`   // bytes of these chunks
	Full    bool   `json:"full"`    // no tier has space for more
	Done    bool   `json:"done"`    // next is the end of the epoch
}
