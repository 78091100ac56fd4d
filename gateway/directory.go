package gateway

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/webdataset"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
)

// directory is an epoch as a directory of another library's shards. Each shard is a batch. The library reads a list of
// them first.
type directory struct {
	form          string
	before, after string // around the number in a shard's name
	digits        int    // of the number, at least
	index         func(ctx context.Context, a asked, shards []mds.BatchInfo) ([]byte, error)
}

// directoryIndex is the name of the list of the shards.
const directoryIndex = "index.json"

// mdsDirectory is an epoch as MosaicML's Streaming reads one.
func mdsDirectory() directory {
	return directory{form: mds.Name, before: "shard.", after: ".mds", digits: 5, index: func(ctx context.Context, a asked, shards []mds.BatchInfo) ([]byte, error) {
		constants, err := body.MDSConstants(ctx, a.dataset.Dataset, a.View)
		if err != nil {
			return nil, err
		}
		list, err := mds.Index(constants, shards)
		if err != nil {
			return nil, fmt.Errorf("index of the shards: %w", err)
		}
		return list, nil
	}}
}

// tarDirectory is an epoch as WebDataset reads one. The list is that of its wids.
func tarDirectory() directory {
	return directory{form: webdataset.Name, after: ".tar", digits: 6, index: func(_ context.Context, a asked, shards []mds.BatchInfo) ([]byte, error) {
		type shard struct {
			URL     string `json:"url"`
			Samples int    `json:"nsamples"`
			Bytes   int64  `json:"filesize"`
		}
		list := make([]shard, len(shards))
		for i, s := range shards {
			list[i] = shard{s.Name, s.Samples, s.Bytes}
		}
		return encodeJSON(map[string]any{"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": a.Name(), "shardlist": list})
	}}
}

// name returns the name of the shard of a batch.
func (v directory) name(batch uint64) string {
	return fmt.Sprintf("%s%0*d%s", v.before, v.digits, batch, v.after)
}

// number returns the batch of a shard. ok is false for a name that no shard has.
func (v directory) number(name string) (batch uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, v.before), v.after)
	batch, err := strconv.ParseUint(digits, 10, 64)
	return batch, err == nil && v.name(batch) == name
}

// getDirectory answers for the files of a directory.
func (g *Gateway) getDirectory(v directory) handlerFunc {
	return func(x *exchange) error {
		file := chi.URLParam(x.r, "file")
		batch, isShard := v.number(file)
		if !isShard && file != directoryIndex {
			return address.Refuse(address.NotFound, "no file of this name: they are %s, %s and so on, one for each batch", directoryIndex, v.name(0))
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
		x.log.setBatch(batch)
		if err := a.CheckEnd(); err != nil {
			return err
		}
		return g.answerBatch(x, a)
	}
}

// decodeDirectory reads the plan of a directory from the query, or from a part of the path with the same text. That part
// stays in place when a library appends the name of a file.
func (g *Gateway) decodeDirectory(x *exchange, v directory) (asked, error) {
	defer x.log.Spent(timing.Resolve, time.Now())
	d := x.dataset
	raw := chi.URLParam(x.r, "plan")
	if x.r.URL.RawPath != "" {
		var err error
		if raw, err = url.PathUnescape(raw); err != nil {
			return asked{}, invalid("the plan in the path: bad escape")
		}
	}
	if query := x.r.URL.RawQuery; raw != "" && query != "" {
		raw += "&" + query
	} else {
		raw += query
	}
	q := address.ParseQuery(raw, address.BatchNames()...)
	q.Fix("format", v.form)
	return g.resolve(x, d, q, address.DecodeEpoch(q, d.Address, chi.URLParam(x.r, "epoch")))
}

// shardBytes is about what an entry of a list of shards takes, while it is made.
const shardBytes = 1 << 10

// getDirectoryIndex answers with the list of the shards, whose lengths follow from the index alone.
func (g *Gateway) getDirectoryIndex(x *exchange, v directory, a asked) error {
	batches := a.Batching().Batches()
	if batches > body.MaxSamples {
		return invalid("the epoch has %d batches: at most %d can be listed, so take a larger batch_size", batches, body.MaxSamples)
	}
	_, positions := a.Share()
	if err := body.CheckShare(positions); err != nil {
		return err
	}
	if err := g.checkSplit(x, a); err != nil {
		return err
	}
	h := x.w.Header()
	// A trainer reads this list and then forks its workers. Libraries whose clients keep connections, boto3's among them,
	// would have all workers talk over the one that they inherit.
	h.Set("Connection", "close")
	etag := a.DescriptionETag(v.form + " " + directoryIndex)
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.describing(a.Pinned))
	h.Set("Millrace-Generation", a.Generation)
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	if err := checkWork(g.work(a, batches), maxIndexWork); err != nil {
		return err
	}
	release, err := g.await(x, int64(batches)*shardBytes)
	if err != nil {
		return err
	}
	defer release()
	shards := make([]mds.BatchInfo, 0, batches)
	err = g.measure(x, a, batches, func(a asked, b *body.Body) error {
		shards = append(shards, mds.BatchInfo{Name: v.name(a.Number), Samples: b.Samples(), Bytes: b.Size})
		return nil
	})
	if err != nil {
		return err
	}
	list, err := v.index(x.r.Context(), a, shards)
	if err != nil {
		return err
	}
	return sendPart(x, "application/json", etag, list)
}
