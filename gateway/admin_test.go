package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
)

func TestAdminPort(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.AdminListen = true })
	data := r.server
	admin := httptest.NewServer(r.gateway.Admin())
	defer admin.Close()
	for path, want := range map[string]string{
		"/metrics": "millrace_cache_hits_total 42", "/v1/stats": `"counters"`, "/healthz": "ok", "/readyz": "ready",
		"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/cmdline": "test",
	} {
		r.server = admin
		if a := r.do("GET", path); a.StatusCode != http.StatusOK || !strings.Contains(string(a.body), want) {
			t.Errorf("%s on the admin port: got status %d and %.100q, want 200 and %q", path, a.StatusCode, a.body, want)
		}
		r.server = data
		if a := r.do("GET", path); a.StatusCode != http.StatusNotFound && path != "/healthz" && path != "/readyz" {
			t.Errorf("%s on the data port: got status %d, want 404", path, a.StatusCode)
		}
	}
	r.server = admin
	if a := r.do("GET", "/epoch/0/batch/0"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a batch on the admin port: got status %d, want 404", a.StatusCode)
	}
	r.server = data
}
