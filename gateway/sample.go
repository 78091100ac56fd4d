package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// sampleName is how a request names one sample: by its key and, where several shards have the key, by the shard.
type sampleName struct{ key, shard string }

func decodeSampleName(q *query) sampleName {
	name := sampleName{key: q.text("key")}
	if _, given := q.values["shard"]; given {
		name.shard = q.text("shard")
	}
	return name
}

// findSample returns the number of the sample that a request names.
func findSample(x *exchange, d *dataset, name sampleName) (uint64, error) {
	defer x.log.spent(phaseResolve, time.Now())
	n, ok, err := d.Index.Lookup(x.r.Context(), name.key, name.shard)
	var ambiguous *chunkindex.AmbiguousKeyError
	switch {
	case errors.As(err, &ambiguous):
		return 0, ambiguousKey(ambiguous)
	case err != nil:
		return 0, fmt.Errorf("look up a key: %w", err)
	case !ok && name.shard != "":
		return 0, &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no sample of this shard has this key"}
	case !ok:
		return 0, &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no sample has this key"}
	}
	return n, nil
}

// maxShardText bounds the bytes of the shards that a problem lists: clients read 64 KiB of a problem, and JSON may write
// a byte of a name as six.
const maxShardText = 8 << 10

func ambiguousKey(e *chunkindex.AmbiguousKeyError) *problem {
	p := &problem{Status: http.StatusConflict, Code: codeAmbiguousKey, More: &e.More, Cause: e}
	size := 0
	for _, shard := range e.Shards {
		if size += len(shard); size > maxShardText {
			more := true
			p.More = &more
			break
		}
		p.Shards = append(p.Shards, shard)
	}
	count := fmt.Sprint(len(e.Shards))
	if e.More {
		count = "more than " + count
	}
	p.Detail = count + " shards have a sample of this key: name one with shard="
	return p
}

// getSample answers with one sample by its key, as a batch of one.
func (g *Gateway) getSample(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery, "key", "shard", "generation", "format", "fields", "table")
	name := decodeSampleName(q)
	p := planRequest{dataset: d, view: decodeView(q, d)}
	if err := d.check(q); err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if err := p.negotiate(x.r); err != nil {
		return err
	}
	if err := d.checkFields(x, p.view); err != nil {
		return err
	}
	n, err := findSample(x, d, name)
	if err != nil {
		return err
	}
	a := &answering{dataset: d, view: p.view, etag: p.sampleETag(n)}
	h := x.w.Header()
	h.Set("ETag", a.etag)
	h.Set("Cache-Control", cacheControl(q.has("generation")))
	h.Set("Content-Location", p.sampleURL(name))
	h.Set("Millrace-Generation", d.Index.Generation())
	h.Set("Millrace-Samples", "1")
	if answered, err := x.preconditions(a.etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	start := time.Now()
	l := &located{numbers: []uint64{n}, slots: map[int32]int32{}}
	if err = l.find(x.r.Context(), d.Index); err == nil {
		x.log.spent(phasePlan, start)
		err = g.lay(x.r.Context(), x, a, l)
	}
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
func (p planRequest) sampleURL(name sampleName) string {
	u := "/v1/datasets/" + p.dataset.Name + "/sample?"
	if p.view.fields != nil {
		u += "fields=" + p.view.fieldsParameter() + "&"
	}
	if !p.view.plain() {
		u += "format=" + p.view.form.name + "&"
	}
	u += "generation=" + p.dataset.Index.Generation() + "&key=" + url.QueryEscape(name.key)
	if name.shard != "" {
		u += "&shard=" + url.QueryEscape(name.shard)
	}
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
	if answered, err := x.preconditions(d.indexETag); answered || err != nil {
		return err
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
