package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/webdataset"
	"github.com/millrace-data/millrace/shuffle"
)

// virtual is an epoch as a directory of shards of another library, each of which is a batch, with the list of them that the
// library reads first.
type virtual struct {
	form          string
	before, after string // what stands around the number in a shard's name
	digits        int    // of the number, at least
	index         func(ctx context.Context, b batchRequest, shards []mds.BatchInfo) ([]byte, error)
}

const virtualIndex = "index.json"

// virtualMDS is an epoch as MosaicML's Streaming reads one.
func virtualMDS() virtual {
	return virtual{form: mds.Name, before: "shard.", after: ".mds", digits: 5, index: func(ctx context.Context, b batchRequest, shards []mds.BatchInfo) ([]byte, error) {
		constants := b.dataset.Index.Constants()
		if b.dataset.Index.Native() != mds.Name {
			var err error
			if constants, _, err = b.dataset.mdsConstants(ctx, b.view); err != nil {
				return nil, err
			}
		}
		body, err := mds.Index(constants, shards)
		if err != nil {
			return nil, fmt.Errorf("index of the shards: %w", err)
		}
		return body, nil
	}}
}

// virtualTars is an epoch as WebDataset reads one; the list is that of its wids.
func virtualTars() virtual {
	return virtual{form: webdataset.Name, after: ".tar", digits: 6, index: func(_ context.Context, b batchRequest, shards []mds.BatchInfo) ([]byte, error) {
		type shard struct {
			URL     string `json:"url"`
			Samples int    `json:"nsamples"`
			Bytes   int64  `json:"filesize"`
		}
		list := make([]shard, len(shards))
		for i, s := range shards {
			list[i] = shard{s.Name, s.Samples, s.Bytes}
		}
		return encodeJSON(map[string]any{"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": b.dataset.Name, "shardlist": list})
	}}
}

// name is the name of the shard that is a batch.
func (v virtual) name(batch uint64) string {
	return fmt.Sprintf("%s%0*d%s", v.before, v.digits, batch, v.after)
}

// number returns which batch a shard is; ok is false for a name that no shard has.
func (v virtual) number(name string) (batch uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, v.before), v.after)
	batch, err := strconv.ParseUint(digits, 10, 64)
	return batch, err == nil && v.name(batch) == name
}

// getVirtual answers for the files of such a directory.
func (g *Gateway) getVirtual(v virtual) handlerFunc {
	return func(x *exchange) error {
		file := chi.URLParam(x.r, "file")
		batch, isShard := v.number(file)
		if !isShard && file != virtualIndex {
			return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no file of this name: they are " + virtualIndex + ", " + v.name(0) + " and so on, one for each batch"}
		}
		b, err := g.decodeVirtual(x, v)
		if err != nil {
			return err
		}
		if err := b.dataset.checkFields(x, b.view); err != nil {
			return err
		}
		if !isShard {
			return g.getVirtualIndex(x, v, b)
		}
		b.batch = batch
		x.log.batch, x.log.hasBatch = batch, true
		if err := b.checkEnd(); err != nil {
			return err
		}
		return g.answerBatch(x, b)
	}
}

// decodeVirtual reads the plan of a directory: from the query, or from a part of the path of the same form, which stays in place
// when a library puts a file's name behind it.
func (g *Gateway) decodeVirtual(x *exchange, v virtual) (b batchRequest, err error) {
	defer x.log.spent(phaseResolve, time.Now())
	d, err := g.findDataset(x)
	if err != nil {
		return b, err
	}
	raw := chi.URLParam(x.r, "plan")
	if x.r.URL.RawPath != "" {
		if raw, err = url.PathUnescape(raw); err != nil {
			return b, invalid("the plan in the path: bad escape")
		}
	}
	if query := x.r.URL.RawQuery; raw != "" && query != "" {
		raw += "&" + query
	} else {
		raw += query
	}
	q := parseQuery(raw, batchNames()...)
	switch q.values["format"] {
	case "":
		q.values["format"] = v.form
	case v.form:
	default:
		q.fail("format", "must be %s here", v.form)
	}
	b.planRequest = decodePlan(q, d)
	b.epoch = q.decimal("epoch", chi.URLParam(x.r, "epoch"), 0, ^uint64(0))
	if err := d.check(q); err != nil {
		return b, err
	}
	if err := g.complete(x.r.Context(), &b.planRequest); err != nil {
		return b, err
	}
	x.log.setPlan(b.planRequest, b.epoch)
	return b, nil
}

// shardBytes is about what an entry of a list of shards takes, while it is made.
const shardBytes = 1 << 10

// getVirtualIndex answers with the list of the shards, whose lengths follow from the index alone.
func (g *Gateway) getVirtualIndex(x *exchange, v virtual, b batchRequest) error {
	batches := b.batching().Batches()
	if batches > maxShare {
		return invalid("the epoch has %d batches: at most %d can be listed, so take a larger batch_size", batches, maxShare)
	}
	share, all := b.share()
	if err := checkShare(all); err != nil {
		return err
	}
	if err := g.acceptSplit(x, b.planRequest); err != nil {
		return err
	}
	h := x.w.Header()
	// A trainer reads this list and then forks its workers. Libraries whose clients keep connections, boto3's among them, would
	// have all of them talk over the one that they inherit.
	h.Set("Connection", "close")
	etag := b.describingETag(v.form + " " + virtualIndex)
	h.Set("ETag", etag)
	h.Set("Cache-Control", describingControl(b.pinned))
	h.Set("Millrace-Generation", b.dataset.Index.Generation())
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	release, err := g.await(x, b.planningBytes(share, all)+b.formBytes(share.Count)+int64(batches)*shardBytes)
	if err != nil {
		return err
	}
	defer release()
	shards := make([]mds.BatchInfo, 0, batches)
	for ; b.batch < batches; b.batch++ {
		r, l, err := g.laidOut(x.r.Context(), x, b)
		if err != nil {
			return fmt.Errorf("batch %d: %w", b.batch, err)
		}
		shards = append(shards, mds.BatchInfo{Name: v.name(b.batch), Samples: len(l.samples), Bytes: l.size})
		g.recycle(l)
		r.leave()
	}
	body, err := v.index(x.r.Context(), b, shards)
	if err != nil {
		return err
	}
	return g.sendPart(x, "application/json", etag, body)
}

// sendPart answers with a body that is in memory, or the part of it that Range asks for.
func (g *Gateway) sendPart(x *exchange, contentType, etag string, body []byte) error {
	part, status, err := x.part(etag, int64(len(body)))
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.mustWrite(body[part.start : part.start+part.length])
	}
	return nil
}

// answerBatch answers with a batch in the form that is settled.
func (g *Gateway) answerBatch(x *exchange, b batchRequest) error {
	a := b.answering()
	return g.answerShare(x, b, batchBody, a.etag, func(at shuffle.Cursor, l *located) error {
		if err := g.lay(x.r.Context(), x, a, l); err != nil {
			return err
		}
		return g.send(x, a, at, l)
	})
}
