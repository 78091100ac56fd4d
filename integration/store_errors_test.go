package integration_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// behind returns a store behind a proxy. While fault is set, the proxy passes each request to it
// first.
func behind(t *testing.T, store *harness.Store, fault *atomic.Pointer[http.HandlerFunc]) *harness.Store {
	t.Helper()
	const name = "AWS_ENDPOINT_URL_S3="
	target, err := url.Parse(strings.TrimPrefix(store.Env[0], name))
	if err != nil || target.Host == "" {
		t.Fatalf("address of the store: got %q and %v", store.Env[0], err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // keep the signed Host
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := fault.Load(); f != nil {
			(*f)(w, r)
			if r.Header.Get("Authorization") == "" {
				return
			}
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	changed := *store
	changed.Env = append([]string{name + server.URL}, store.Env[1:]...)
	return &changed
}

// answered tells the proxy of behind not to forward a request to the store.
func answered(r *http.Request) { r.Header.Del("Authorization") }

// TestStoreFaults makes the store of a running gateway refuse, throttle, vanish and stall. Chunks
// in memory are still served; other requests fail with an error that names the cause. The errors
// end with the fault.
func TestStoreFaults(t *testing.T) {
	files, _ := harness.Files(t, 120, 4000)
	store := harness.Open(t, "minio")
	harness.Record(t, nil)
	harness.Pack(t, store, files, dataset, small()...)
	for name, c := range map[string]struct {
		fault  http.HandlerFunc
		status int
		code   string
	}{
		"denied": {func(_ http.ResponseWriter, r *http.Request) { // the real server finds an invalid signature
			sign := r.Header.Get("Authorization")
			r.Header.Set("Authorization", sign[:len(sign)-4]+"beef")
		}, 502, "store_denied"},
		"throttled": {func(w http.ResponseWriter, r *http.Request) {
			answered(r)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		}, 503, "store_unavailable"},
		"gone": {func(_ http.ResponseWriter, r *http.Request) {
			answered(r)
			panic(http.ErrAbortHandler)
		}, 503, "store_unavailable"},
		"stalled": {func(_ http.ResponseWriter, r *http.Request) {
			answered(r)
			<-r.Context().Done()
		}, 504, "store_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			var fault atomic.Pointer[http.HandlerFunc]
			g := serve(t, behind(t, store, &fault), "--no-prefetch")
			path := func(m int) string { return batchPath(0, m) + "?shuffle=none&batch_size=4" }
			far := path(20)
			g.MustGet(t, path(0))
			fault.Store(&c.fault)
			var header []string
			if c.status == http.StatusGatewayTimeout {
				header = []string{"Millrace-Deadline-Ms", "1000"}
			}
			r := g.Get(t, far, header...)
			p := problemOf(t, r)
			if r.Status != c.status || p.Code != c.code || !p.Retryable || r.Header.Get("Retry-After") == "" {
				t.Errorf("got %d %+v, Retry-After %q, want %d %s, retryable", r.Status, p, r.Header.Get("Retry-After"), c.status, c.code)
			}
			g.MustGet(t, path(0)) // from memory
			fault.Store(nil)
			g.Await(t, far)
		})
	}
}
