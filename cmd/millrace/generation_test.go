package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFetch_RankRequiresGeneration: if gateways follow new generations, fetch of one rank requires
// --generation. The error explains how to set it.
func TestFetch_RankRequiresGeneration(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/datasets" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": "generation_gone", "detail": "not kept any more"})
			return
		}
		d := map[string]any{"name": "photos", "generation": "g1", "follows": true}
		_ = json.NewEncoder(w).Encode(map[string]any{"datasets": []any{d}})
	}))
	defer srv.Close()
	args := []string{"fetch", srv.URL}
	o := millrace(t, nil, append(args, "--rank", "1", "--world-size", "4")...)
	if o.code != exitUsage || !strings.Contains(o.stderr, "use the same generation for all ranks") || !strings.Contains(o.stderr, "the current one is g1") {
		t.Errorf("got exit code %d, %q, want %d and the cure", o.code, o.stderr, exitUsage)
	}
	for _, more := range [][]string{{"--rank", "1", "--world-size", "4", "--generation", "g0"}, nil} {
		o = millrace(t, nil, append(args, more...)...)
		if o.code != exitNotFound || !strings.Contains(o.stderr, "begin a new job") {
			t.Errorf("%v: got exit code %d, %q, want %d and the cure", more, o.code, o.stderr, exitNotFound)
		}
	}
}
