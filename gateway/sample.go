package gateway

import (
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/shuffle"
)

// findSample returns the number of a sample.
func findSample(x *exchange, d *dataset, s address.Sample) (uint64, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	n, ok, err := d.Index.Lookup(x.r.Context(), s.Key, s.Shard)
	var ambiguous *chunkindex.AmbiguousKeyError
	switch {
	case errors.As(err, &ambiguous):
		return 0, ambiguousKey(ambiguous)
	case err != nil:
		return 0, fmt.Errorf("look up a key: %w", err)
	case !ok && s.Shard != "":
		return 0, address.Refuse(address.NotFound, "no sample of this shard has this key")
	case !ok:
		return 0, address.Refuse(address.NotFound, "no sample has this key")
	}
	return n, nil
}

// maxShardText is the maximum total length of the shard names in a problem. Clients read 64 KiB of
// a problem, and JSON may escape a byte as six.
const maxShardText = 8 << 10

func ambiguousKey(e *chunkindex.AmbiguousKeyError) *problem {
	p := &problem{Code: codeAmbiguousKey, Cause: e, figures: figures{More: &e.More}}
	size := 0
	for _, shard := range e.Shards {
		if size += len(shard); size > maxShardText {
			p.More = new(true)
			break
		}
		p.Shards = append(p.Shards, shard)
	}
	count := fmt.Sprint(len(e.Shards))
	if e.More {
		count = "more than " + count
	}
	p.Detail = count + " shards have this key: select one with shard="
	return p
}

// getSample sends one sample by its key, as a batch of one.
func (g *Gateway) getSample(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, append(address.NamesOf(address.Showing), "key", "shard", "generation")...)
	s := address.DecodeSample(q, d.Address)
	s.View = address.DecodeView(q, d.Address)
	if err := d.Address.Check(q); err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if err := s.View.Negotiate(x.accept(), d.Address.Forms); err != nil {
		return err
	}
	if err := x.checkFields(d, s.View); err != nil {
		return err
	}
	n, err := findSample(x, d, s)
	if err != nil {
		return err
	}
	answer := body.Answer{Dataset: d.Dataset, View: s.View, ETag: s.ETag(n)}
	h := x.w.Header()
	h.Set("ETag", answer.ETag)
	h.Set("Cache-Control", x.cacheControl(q.Has("generation")))
	h.Set("Content-Location", s.URL())
	h.Set("Millrace-Generation", s.Generation)
	h.Set("Millrace-Samples", "1")
	if answered, err := g.settled(x, answer.ETag); answered || err != nil {
		return err
	}
	b := g.bodies.Get()
	defer g.bodies.Put(b)
	before := x.log.Enter(timing.Locate)
	err = b.LocateSample(x.r.Context(), d.Index, n)
	x.log.Leave(before)
	if err != nil {
		return err
	}
	if err := g.layOut(x.r.Context(), x, d, answer, shuffle.Cursor{}, b); err != nil {
		return err
	}
	return g.send(x, d, answer, shuffle.Cursor{}, b)
}
