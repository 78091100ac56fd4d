package gateway

import (
	"fmt"
	"math"
)

// postWarm brings what an epoch needs from a position on, for about a second, and says where to go on.
func (g *Gateway) postWarm(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, append(planNames(), "epoch", "from")...)
	p := decodePlan(q, d)
	epoch := q.number("epoch", 0, 0, math.MaxUint64)
	from := q.number("from", 0, 0, d.Index.Samples())
	if err := d.check(q); err != nil {
		return err
	}
	if err := g.complete(x.r.Context(), &p); err != nil {
		return err
	}
	if err := d.refuseMixture("what to warm"); err != nil {
		return err
	}
	samples := p.samples
	if from > samples {
		q.fail("from", "must be at most %d", samples)
		return q.err()
	}
	if x.r.ContentLength != 0 {
		return invalid("what to warm is said in the query: a body is not wanted here")
	}
	x.log.setPlan(p, epoch)
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	b := batchRequest{planRequest: p, epoch: epoch}
	r, err := g.reading(x.r.Context(), b)
	if err != nil {
		return err
	}
	defer r.leave()
	answer := warmed{Next: samples, Samples: samples, Done: true}
	if at := r.Cursor; from < samples {
		at.First, at.End = from, min(from+p.batchSize, samples)
		w, err := d.Source.Warm(x.r.Context(), at)
		if err != nil {
			return fmt.Errorf("warm epoch %d from position %d: %w", epoch, from, err)
		}
		answer = warmed{Next: w.Next, Samples: samples, Chunks: w.Chunks, Bytes: w.Bytes, Full: w.Full, Done: w.Next >= samples}
	}
	x.w.Header().Set("Cache-Control", "no-store")
	return sendJSON(x, answer)
}

// warmed says what one request to warm has done.
type warmed struct {
	Next    uint64 `json:"next"`    // position to go on from
	Samples uint64 `json:"samples"` // positions of the epoch
	Chunks  int    `json:"chunks"`  // brought by this request
	Bytes   int64  `json:"bytes"`   // of them
	Full    bool   `json:"full"`    // no tier has room for more
	Done    bool   `json:"done"`    // next is the end of the epoch
}
