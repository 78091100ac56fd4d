package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace-data/millrace/shuffle"
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

// getSample answers with one sample by its key, as a batch of one.
func (g *Gateway) getSample(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, "key", "generation", "format", "fields", "table")
	key := q.text("key")
	p := planRequest{dataset: d, view: decodeView(q, d)}
	if err := d.check(q); err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if err := p.negotiate(x.r); err != nil {
		return err
	}
	if err := d.checkFields(x.r.Context(), p.view); err != nil {
		return err
	}
	n, err := findSample(x, d, key)
	if err != nil {
		return err
	}
	a := &answering{dataset: d, view: p.view, etag: p.sampleETag(n)}
	h := x.w.Header()
	h.Set("ETag", a.etag)
	h.Set("Cache-Control", cacheControl(q.has("generation")))
	h.Set("Content-Location", p.sampleURL(key))
	h.Set("Millrace-Generation", d.Index.Generation())
	h.Set("Millrace-Samples", "1")
	if notModified(x.r, a.etag) {
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	start := time.Now()
	l := &located{numbers: []uint64{n}, slots: map[int32]int32{}}
	if err = l.find(x.r.Context(), d.Index); err == nil {
		err = g.lay(x.r.Context(), a, l)
	}
	x.log.plan = time.Since(start)
	if err != nil {
		return err
	}
	return g.send(x, a, shuffle.Cursor{}, l)
}

// sampleETag follows from the generation, the sample and the form.
func (p planRequest) sampleETag(n uint64) string {
	text := fmt.Sprintf("millrace sample\n%s\n%d\n", p.dataset.Index.Generation(), n)
	if !p.view.plain() {
		text += fmt.Sprintf("form %d %s\n%s\n%s\n", formVersion, p.view.form.name, p.view.fieldsParameter(), p.view.tableParameter())
	}
	sum := sha256.Sum256([]byte(text))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// sampleURL is the canonical address of a sample.
func (p planRequest) sampleURL(key string) string {
	u := "/v1/datasets/" + p.dataset.Name + "/sample?"
	if p.view.fields != nil {
		u += "fields=" + p.view.fieldsParameter() + "&"
	}
	if !p.view.plain() {
		u += "format=" + p.view.form.name + "&"
	}
	u += "generation=" + p.dataset.Index.Generation() + "&key=" + url.QueryEscape(key)
	if t := p.view.tableParameter(); t != "" {
		u += "&table=" + t
	}
	return u
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
	if err := d.refuseMixture("an index"); err != nil {
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
