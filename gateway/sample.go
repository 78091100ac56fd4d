package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// maxEpochs bounds the epochs of one question for occurrences: each has to be prepared. maxOccurrences
// bounds the answer: where a batch is larger than the dataset, padding delivers a sample many times an epoch.
const (
	maxEpochs       = 1000
	maxOccurrences  = 1 << 16
	occurrenceBytes = 128 // in memory and as JSON
)

// findSample reads the key that a query names.
func findSample(x *exchange, d *dataset, key string) (uint64, error) {
	n, ok, err := d.Index.Lookup(x.r.Context(), key)
	if err != nil {
		return 0, fmt.Errorf("look up a key: %w", err)
	}
	if !ok {
		return 0, &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no sample has this key"}
	}
	return n, nil
}

// getSample answers with one sample by its key, framed as a batch of one.
func (g *Gateway) getSample(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, "key", "generation")
	key := q.text("key")
	if err := d.check(q); err != nil {
		return err
	}
	n, err := findSample(x, d, key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "millrace sample\n%s\n%d\n", d.Index.Generation(), n))
	etag := `"` + hex.EncodeToString(sum[:]) + `"`
	h := x.w.Header()
	h.Set("ETag", etag)
	h.Set("Cache-Control", cacheControl(q.has("generation")))
	h.Set("Content-Location", fmt.Sprintf("/v1/datasets/%s/sample?generation=%s&key=%s", d.Name, d.Index.Generation(), url.QueryEscape(key)))
	h.Set("Millrace-Generation", d.Index.Generation())
	h.Set("Millrace-Samples", "1")
	if notModified(x.r, etag) {
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	start := time.Now()
	l := &located{numbers: []uint64{n}, slots: map[int32]int32{}}
	err = g.locate(x.r.Context(), d.Index, l)
	x.log.plan = time.Since(start)
	if err != nil {
		return err
	}
	return g.send(x, d, shuffle.Cursor{}, l, etag)
}

// occurrence is one place at which a sample is delivered.
type occurrence struct {
	Epoch    uint64 `json:"epoch"`
	Batch    uint64 `json:"batch"`
	Position uint64 `json:"position"`
}

// getOccurrences answers where a sample comes in some epochs: the order, inverted.
func (g *Gateway) getOccurrences(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, append(planNames(), "key", "epochs")...)
	key := q.text("key")
	lo, hi := q.epochs()
	p := decodePlan(q, d)
	if err := d.check(q); err != nil {
		return err
	}
	n, err := findSample(x, d, key)
	if err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	most := (hi - lo + 1) * p.mostDeliveries()
	if most > maxOccurrences {
		return invalid("the sample comes up to %d times in these epochs; at most %d are listed at a time", most, maxOccurrences)
	}
	release, err := g.reserve(x.r.Context(), d.epochBytes()+int64(most)*occurrenceBytes)
	if err != nil {
		return err
	}
	defer release()
	plan, leave, err := g.plans.plan(x.r.Context(), d, p.params)
	if err != nil {
		return err
	}
	defer leave()
	answer := struct {
		Occurrences []occurrence `json:"occurrences"`
	}{[]occurrence{}}
	for epoch := lo; ; epoch++ {
		if err := x.r.Context().Err(); err != nil {
			return fmt.Errorf("occurrences in epoch %d: %w", epoch, err)
		}
		at := plan.Epoch(epoch).Position(n)
		for _, position := range p.deliveries(at) {
			answer.Occurrences = append(answer.Occurrences, occurrence{epoch, position / p.batchSize, position})
		}
		if epoch == hi {
			break
		}
	}
	x.w.Header().Set("Cache-Control", cacheControl(p.pinned))
	return sendJSON(x, answer)
}

// deliveries returns the positions at which the sample of one position of the order is delivered: there unless the tail is
// dropped, and again wherever it pads the last batch.
func (p planRequest) deliveries(at uint64) []uint64 {
	end, samples := p.delivered()
	var out []uint64
	for ; at < end; at += samples {
		out = append(out, at)
	}
	return out
}

// mostDeliveries bounds how often an epoch delivers one sample.
func (p planRequest) mostDeliveries() uint64 {
	end, samples := p.delivered()
	return end/samples + 1
}

// delivered returns how many positions an epoch delivers, padding included, and how many samples there are: at least one,
// or no key would have been found.
func (p planRequest) delivered() (end, samples uint64) {
	b := p.batching()
	if b.Tail == shuffle.Short {
		return b.Samples, b.Samples
	}
	return b.Batches() * b.BatchSize, b.Samples
}

// epochs reads "3" or "0-9".
func (q *query) epochs() (lo, hi uint64) {
	s, given := q.values["epochs"]
	if !given {
		q.fail("epochs", "missing")
		return 0, 0
	}
	if s == "" {
		return 0, 0
	}
	first, last, ranged := strings.Cut(s, "-")
	if !ranged {
		last = first
	}
	before := len(q.faults)
	lo = q.decimal("epochs", first, 0, math.MaxUint64)
	if ranged {
		hi = q.decimal("epochs", last, 0, math.MaxUint64)
	} else {
		hi = lo
	}
	switch {
	case len(q.faults) > before:
	case hi < lo:
		q.fail("epochs", "the last is below the first")
	case hi-lo >= maxEpochs:
		q.fail("epochs", "at most %d at a time", maxEpochs)
	}
	return lo, hi
}

// getIndex answers with the index object itself, as it is stored.
func (g *Gateway) getIndex(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, "generation")
	if err := d.check(q); err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("ETag", d.indexETag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Millrace-Generation", d.Index.Generation())
	if notModified(x.r, d.indexETag) {
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, status, err := x.part(d.indexETag, d.Index.Size())
	if err != nil {
		return err
	}
	h.Set("Content-Type", "application/octet-stream")
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.CopyN(x.w, io.NewSectionReader(d.Index, part.start, part.length), part.length); err != nil {
		return fmt.Errorf("send the index: %w", err)
	}
	return nil
}
