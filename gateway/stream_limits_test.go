package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestManyBatchesHaveLimits requests the maximum number of batches and of samples in one response,
// and one more.
func TestManyBatchesHaveLimits(t *testing.T) {
	r := serveObjects(t, writeLines().objects, nil)
	for _, c := range []struct {
		query  string
		status int
		code   string
	}{
		{"count=1024&batch_size=1", http.StatusOK, ""},
		{"count=1025&batch_size=1", http.StatusBadRequest, "invalid_argument"},
		{"count=0", http.StatusBadRequest, "invalid_argument"},
		{"from=40&batch_size=1", http.StatusNotFound, "end_of_epoch"},
		{"from=39&batch_size=1", http.StatusOK, ""},
		{"from=18446744073709551615&count=1024", http.StatusNotFound, "end_of_epoch"},
		{"batch_size=1048577&tail=pad", http.StatusBadRequest, "batch_too_large"},
		{"count=2&batch_size=1048576&tail=pad&world_size=1048576&rank=3", http.StatusOK, ""},
	} {
		a := r.do("HEAD", "/epoch/0/batches?"+c.query)
		if a.StatusCode != c.status {
			t.Errorf("%s: got status %d, want %d", c.query, a.StatusCode, c.status)
		}
		if c.code == "" {
			continue
		}
		var p struct{ Code string }
		if err := json.Unmarshal(r.do("GET", "/epoch/0/batches?"+c.query).body, &p); err != nil || p.Code != c.code {
			t.Errorf("%s: got code %q, %v, want %q", c.query, p.Code, err, c.code)
		}
	}
}
