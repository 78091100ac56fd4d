package gateway

import (
	"bufio"
	"context"
	"net/http"
	"strconv"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
)

// answerManifest sends the stored location of each sample of a batch.
func (g *Gateway) answerManifest(x *exchange, a batchRequest) error {
	etag := a.DescriptionETag(string(address.Manifest))
	return g.answerShare(x, a, address.Manifest, etag, func(_ plans.BatchOrder, b *body.Body) error {
		return sendManifest(x, a, b)
	})
}

// sendManifest encodes a short manifest once. It encodes a long manifest twice: once to compute its
// length, which depends on the keys, and once to send it. So a long manifest is never in memory as
// a whole.
func sendManifest(x *exchange, a batchRequest, b *body.Body) error {
	length, short := 0, make([]byte, 0, unreserved)
	err := b.EncodeManifest(x.r.Context(), a.dataset.Dataset, func(p []byte) {
		if length += len(p); length <= cap(short) {
			short = append(short, p...)
		}
	})
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(length))
	x.w.WriteHeader(http.StatusOK)
	switch {
	case x.r.Method == http.MethodHead:
		return nil
	case length <= cap(short):
		x.w.MustWrite(short)
		return nil
	}
	out := bufio.NewWriterSize(x.w, unreserved) // bufio.Writer keeps the first error
	if err := b.EncodeManifest(context.WithoutCancel(x.r.Context()), a.dataset.Dataset, func(p []byte) { _, _ = out.Write(p) }); err != nil {
		return err
	}
	if out.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
