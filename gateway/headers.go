package gateway

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/conditional"
)

// describeBatch sets the headers of a batch that depend only on its address.
func describeBatch(x *exchange, b address.Batch, resource address.Resource, etag string) {
	describeEpoch(x, b, etag)
	h := x.w.Header()
	h.Set("Content-Location", b.URL(resource, b.Number))
	if b.At == nil {
		h.Set("Millrace-Batch-Samples", strconv.FormatUint(b.Global().Count, 10))
	}
	if b.Number+1 < b.Batches() {
		h.Set("Link", "<"+b.URL(resource, b.Number+1)+`>; rel="next"`)
	}
	if resource == address.Manifest {
		h.Set("Cache-Control", x.describing(b.Pinned))
	}
}

// describeEpoch sets the headers common to all responses with batches.
func describeEpoch(x *exchange, b address.Batch, etag string) {
	h := x.w.Header()
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	h.Set("ETag", etag)
	h.Set("Cache-Control", x.cacheControl(b.Pinned))
	h.Set("Millrace-Generation", b.Generation)
	h.Set("Millrace-Epoch", num(b.Epoch))
	h.Set("Millrace-Batch", num(b.Number))
	h.Set("Millrace-Batches", num(b.Batches()))
}

// cacheControl lets caches store data of a pinned URL for a year and revalidate other data. Shared
// caches may store only data that every caller may read.
func (x *exchange) cacheControl(pinned bool) string {
	return x.keep(pinned, "max-age=31536000, immutable")
}

// describing is like cacheControl, for descriptions, which a later release may extend.
func (x *exchange) describing(pinned bool) string { return x.keep(pinned, "max-age=3600") }

func (x *exchange) keep(pinned bool, howLong string) string {
	switch {
	case pinned && x.open:
		return "public, " + howLong
	case pinned:
		return "private, " + howLong
	case x.open:
		return "no-cache"
	}
	return "private, no-cache"
}

// settled checks preconditions. It responds to a request whose ETag matches, and refuses all others
// while the gateway drains.
func (g *Gateway) settled(x *exchange, etag string) (answered bool, err error) {
	if answered, err = x.preconditions(etag); answered || err != nil {
		return answered, err
	}
	return false, g.refuseDraining()
}

// preconditions rejects a request whose If-Match does not contain etag, and sends 304 if
// If-None-Match does. If-Unmodified-Since is ignored (RFC 9110, 13.1.4), because responses have no
// modification date.
func (x *exchange) preconditions(etag string) (answered bool, err error) {
	if match := x.r.Header.Values("If-Match"); len(match) > 0 && !conditional.Names(match, etag, etag) {
		return false, &problem{
			Code:   codePrecondition,
			Detail: "If-Match does not match the served version, " + etag,
		}
	}
	if !conditional.Names(x.r.Header.Values("If-None-Match"), etag, "W/"+etag) {
		return false, nil
	}
	x.w.WriteHeader(http.StatusNotModified)
	return true, nil
}

// part returns the part of a body to send, and the status. It also sets the corresponding headers.
// extension is the file extension for a stored body.
func (x *exchange) part(etag string, size int64, extension string) (body.Span, int, error) {
	h := x.w.Header()
	h.Set("Accept-Ranges", "bytes")
	// The bytes come from the dataset: a browser must neither display nor execute them.
	h.Set("Content-Disposition", "attachment; filename="+strconv.Quote(x.fileName(extension)))
	h.Set("Content-Security-Policy", "sandbox")
	wanted, kind := conditional.Select(x.r, etag, size)
	if kind == conditional.Outside {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		return body.Span{}, 0, &problem{
			Code: codeRange, Detail: fmt.Sprintf("the body has %d bytes", size),
		}
	}
	part := body.Span(wanted)
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	if kind == conditional.Whole {
		return part, http.StatusOK, nil
	}
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, size))
	return part, http.StatusPartialContent, nil
}

// fileName returns the file name in the path, or one derived from the dataset, epoch and batch.
func (x *exchange) fileName(kind string) string {
	if file := chi.URLParam(x.r, "file"); file != "" {
		return file
	}
	name := append(make([]byte, 0, 64), x.log.dataset...)
	add := func(what string, n uint64) { name = strconv.AppendUint(append(name, what...), n, 10) }
	if x.log.hasEpoch {
		add("-epoch", x.log.batch.Epoch)
	}
	if x.log.hasBatch {
		add("-batch", x.log.batch.Number)
	}
	if x.log.batch.WorldSize > 1 {
		add("-rank", x.log.batch.Rank)
	}
	return string(append(append(name, '.'), kind...))
}

// sendPart sends a body in memory, or the part that Range selects.
func sendPart(x *exchange, contentType, etag string, content []byte) error {
	part, status, err := x.part(etag, int64(len(content)), "json")
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.MustWrite(content[part.Start:part.End()])
	}
	return nil
}
