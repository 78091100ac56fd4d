package node

import (
	"testing"

	"github.com/millrace-data/millrace/s3backend"
)

func TestStoreStats_SumsStores(t *testing.T) {
	if got := storeStats(nil); len(got) != 0 {
		t.Errorf("no S3 service: got %v, want nothing", got)
	}
	one := s3backend.Stats{Requests: 7, Retries: 2, Hedges: 1, Limit: 16, Errors: map[string]int64{"throttled": 2, "not found": 1}}
	two := s3backend.Stats{Requests: 5, Limit: 8, BreakerOpen: true, Errors: map[string]int64{"throttled": 3}}
	got := map[string]float64{}
	for _, s := range storeStats([]s3backend.Stats{one, two}) {
		got[s.Name] = s.Value
	}
	for name, want := range map[string]float64{
		"store_requests_total": 12, "store_retries_total": 2, "store_hedges_total": 1, "store_request_limit": 24, "store_breakers_open": 1,
		"store_errors_throttled_total": 5, "store_errors_not_found_total": 1, "store_errors_denied_total": 0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s: got %v, %v, want %v", name, value, ok, want)
		}
	}
}

// TestStats_CountStoreReadsByDataset: bytes from the store are counted under the dataset's name,
// over all its generations.
func TestStats_CountStoreReadsByDataset(t *testing.T) {
	a, b := dataset(t), dataset(t)
	r := newRig(t, "  a: file://"+a+"\n  b: file://"+b+"\n", func(c *Config) { c.NoPrefetch = true })
	defer r.Close()
	bytesOf := func(name string) float64 {
		for _, s := range r.stats() {
			if s.Name == "store_read_bytes_total" && s.Labels["dataset"] == name {
				return s.Value
			}
		}
		t.Fatalf("no bytes of dataset %s", name)
		return 0
	}
	read := func() {
		if status, _, body := r.get(batchOf("a")); status != 200 {
			t.Fatalf("got %d: %s", status, body)
		}
	}
	read()
	first := bytesOf("a")
	if first == 0 || bytesOf("b") != 0 {
		t.Errorf("got %v bytes of a and %v of b, want some and none", first, bytesOf("b"))
	}
	grow(t, a, "new.txt")
	r.reload()
	read()
	if got := bytesOf("a"); got <= first {
		t.Errorf("with the next generation: got %v bytes, want more than %v", got, first)
	}
}
