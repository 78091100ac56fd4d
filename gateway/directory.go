package gateway

import (
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
)

// getDirectory sends the files of a directory.
func (g *Gateway) getDirectory(v body.Directory) handlerFunc {
	return func(x *exchange) error {
		file := chi.URLParam(x.r, "file")
		batch, isShard := v.Number(file)
		if !isShard && file != body.DirectoryIndex {
			return address.Refuse(address.NotFound, "no such file: the names are %s, %s and so on, one per batch", body.DirectoryIndex, v.Name(0))
		}
		a, err := g.decodeDirectory(x, v)
		if err != nil {
			return err
		}
		if err := x.checkFields(a.dataset, a.View); err != nil {
			return err
		}
		if !isShard {
			return g.getDirectoryIndex(x, v, a)
		}
		a.Number = batch
		x.log.batch.Number, x.log.hasBatch = batch, true
		if err := a.CheckEnd(); err != nil {
			return err
		}
		return g.answerBatch(x, a)
	}
}

// decodeDirectory decodes the plan of a directory from the query, or from a path segment with the
// same text. Libraries append file names to the path, which does not affect that segment.
func (g *Gateway) decodeDirectory(x *exchange, v body.Directory) (batchRequest, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	raw := chi.URLParam(x.r, "plan")
	if x.r.URL.RawPath != "" {
		var err error
		if raw, err = url.PathUnescape(raw); err != nil {
			return batchRequest{}, invalid("the plan in the path: bad escape")
		}
	}
	if query := x.r.URL.RawQuery; raw != "" && query != "" {
		raw += "&" + query
	} else {
		raw += query
	}
	q := address.ParseQuery(raw, address.EpochNames()...)
	q.Fix("format", v.Form)
	return g.resolve(x, q, address.DecodeEpoch(q, x.dataset.Address, chi.URLParam(x.r, "epoch")))
}

// shardBytes estimates the memory for an entry of a shard list under construction.
const shardBytes = 1 << 10

// getDirectoryIndex sends the list of shards, whose sizes follow from the index.
func (g *Gateway) getDirectoryIndex(x *exchange, v body.Directory, a batchRequest) error {
	batches := a.Batching().Batches()
	if batches > body.MaxSamples {
		return invalid("the epoch has %d batches, above the limit of %d: use a larger batch_size", batches, body.MaxSamples)
	}
	_, positions := a.Share()
	if err := body.CheckShare(positions); err != nil {
		return err
	}
	h := x.w.Header()
	// A trainer reads this list and then forks its workers. Some clients, such as boto3, keep
	// connections open, and all workers would share the inherited one.
	h.Set("Connection", "close")
	etag := a.DescriptionETag(v.Form + " " + body.DirectoryIndex)
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.describing(a.Pinned))
	h.Set("Millrace-Generation", a.Generation)
	if answered, err := g.settled(x, etag); answered || err != nil {
		return err
	}
	if err := checkWork(g.work(a, batches), maxIndexWork); err != nil {
		return err
	}
	if err := g.await(x, &x.held, int64(batches)*shardBytes); err != nil {
		return err
	}
	shards := make([]framing.MDSBatch, 0, batches)
	err := g.measure(x, a, batches, func(a batchRequest, b *body.Body) error {
		shards = append(shards, framing.MDSBatch{Name: v.Name(a.Number), Samples: b.Count(), Bytes: b.Size})
		return nil
	})
	if err != nil {
		return err
	}
	list, err := v.Index(x.r.Context(), a.dataset.Dataset, a.Batch, shards)
	if err != nil {
		return err
	}
	return sendPart(x, "application/json", etag, list)
}
