package client_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// fake is a small gateway with batches of two samples each. Tests inject faults.
type fake struct {
	batches    uint64
	generation string
	follows    bool
	cluster    bool
	plan       string          // query of the batches' canonical addresses, in addition to the generation
	fields     json.RawMessage // null: the fields are unknown

	mu       sync.Mutex
	requests []string                                                 // path and query of each request
	fault    func(n int, w http.ResponseWriter, r *http.Request) bool // n counts requests from 0; it returns true if it has sent a response
}

func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

func castagnoli(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// sample returns the bytes of the fake's sample at a position.
func sample(epoch, position uint64) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%d/%d;", epoch, position), 3))
}

func body(epoch, number uint64) []byte {
	return append(append(sample(epoch, 2*number), sample(epoch, 2*number+1)...), "tail"...)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		return // sent to several gateways, in addition to requests for batches
	}
	f.mu.Lock()
	n := len(f.requests)
	f.requests = append(f.requests, r.URL.RequestURI())
	f.mu.Unlock()
	if f.fault != nil && f.fault(n, w, r) {
		return
	}
	f.answer(w, r, nil)
}

// answer sends the batch or manifest; change may damage the header and the body.
func (f *fake) answer(w http.ResponseWriter, r *http.Request, change func(h http.Header, b []byte) []byte) {
	var epoch, number uint64
	if r.URL.Path == "/v1/datasets" || r.URL.Path == "/v1/datasets/photos" {
		f.describe(w, r.URL.Path == "/v1/datasets")
		return
	}
	path := strings.NewReplacer("/v1/datasets/photos/epochs/", "/epoch/", "/batches/", "/batch/").Replace(r.URL.Path)
	if _, err := fmt.Sscanf(path, "/epoch/%d/batch/%d", &epoch, &number); err != nil {
		http.NotFound(w, r)
		return
	}
	if number >= f.batches {
		refuse(w, http.StatusNotFound, map[string]any{"code": "end_of_epoch", "batches": f.batches})
		return
	}
	if strings.HasSuffix(path, "/manifest") {
		f.manifest(w, epoch, number)
		return
	}
	b := body(epoch, number)
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Location", fmt.Sprintf("/v1/datasets/photos/epochs/%d/batches/%d?generation=%s%s", epoch, number, f.generation, f.plan))
	h.Set("Millrace-Generation", f.generation)
	h.Set("Millrace-Epoch", strconv.FormatUint(epoch, 10))
	h.Set("Millrace-Batch", strconv.FormatUint(number, 10))
	h.Set("Millrace-Batches", strconv.FormatUint(f.batches, 10))
	h.Set("Millrace-Samples", "2")
	h.Set("Millrace-Padded", "0")
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", castagnoli(b)))
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if change != nil {
		b = change(h, b)
	}
	_, _ = w.Write(b)
}

func (f *fake) describe(w http.ResponseWriter, all bool) {
	d := map[string]any{"name": "photos", "generation": f.generation, "follows": f.follows, "cluster": f.cluster, "fields": f.fields}
	if all {
		d = map[string]any{"datasets": []any{d}}
	}
	_ = json.NewEncoder(w).Encode(d)
}

func (f *fake) manifest(w http.ResponseWriter, epoch, number uint64) {
	var samples []map[string]any
	for p := 2 * number; p < 2*number+2; p++ {
		s := sample(epoch, p)
		samples = append(samples, map[string]any{
			"position": p, "key": fmt.Sprintf("k%d", p), "shard": "a.tar",
			"offset": 512 * p, "length": len(s), "crc32c": fmt.Sprintf("%08x", castagnoli(s)),
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"samples": samples})
}

// refuse sends a problem document.
func refuse(w http.ResponseWriter, status int, p map[string]any) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}

// reset closes the connection without a response.
func reset(t *testing.T, w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	c.Close()
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	leaks.Check(t)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}
