package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// indexETag returns the ETag of the index object. The generation determines content and layout; the
// ETags and versions of the shards determine the binding.
func indexETag(x plans.Index) string {
	h := sha256.New()
	fmt.Fprintf(h, "millrace index\n%s\n%d\n", x.Generation(), x.Size())
	for i := range x.Shards() {
		s := x.Shard(i)
		fmt.Fprintf(h, "%s\n%s\n", strconv.Quote(s.ETag), strconv.Quote(s.VersionID))
	}
	return `"` + hex.EncodeToString(h.Sum(nil)) + `"`
}

// getIndex sends the stored index.
func (g *Gateway) getIndex(x *exchange) error {
	d := x.dataset
	q := address.ParseQuery(x.r.URL.RawQuery, "generation")
	if err := d.Address.Check(q); err != nil {
		return err
	}
	if err := d.RefuseMixture("an index"); err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("ETag", d.indexETag)
	h.Set("Cache-Control", x.cacheControl(false))
	h.Set("Millrace-Generation", d.Index.Generation())
	if answered, err := x.preconditions(d.indexETag); answered || err != nil {
		return err
	}
	part, status, err := x.part(d.indexETag, d.Index.Size(), "index")
	if err != nil {
		return err
	}
	h.Set("Content-Type", "application/octet-stream")
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.CopyN(x.w, io.NewSectionReader(d.Index, part.Start, part.Length), part.Length); err != nil {
		return fmt.Errorf("send the index: %w", err)
	}
	return nil
}
