package integration_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestStart_ServesDatasetsWhoseStoresWork starts a gateway while the store of the default dataset denies
// access. Requests for it get 503 until it opens; the other dataset is served. A gateway with no other
// dataset exits.
func TestStart_ServesDatasetsWhoseStoresWork(t *testing.T) {
	store := packed(t, "versitygw")
	var fault atomic.Pointer[http.HandlerFunc]
	denied := http.HandlerFunc(denies)
	fault.Store(&denied)
	failing := "bad=" + store.Dataset(dataset) + "?endpoint=" + strings.TrimPrefix(behind(t, store, &fault).Env[0], "AWS_ENDPOINT_URL_S3=")
	if r := harness.Run(t, store, "serve", "--dataset", failing, "--listen", "127.0.0.1:0"); r.Code != 5 {
		t.Fatalf("with this dataset only: got exit code %d, want 5: %s", r.Code, r.Stderr)
	}
	g := harness.ServeAddress(t, store, failing, "--dataset", "good="+store.Dataset(dataset), "--mixture", "mixed=bad:1,good:2", "--cache-size", "64MiB")
	const batch = "/epochs/0/batches/0"
	for _, path := range []string{"/v1/datasets/bad" + batch, "/v1/datasets/bad", "/epoch/0/batch/0", "/v1/datasets/mixed" + batch} {
		r := g.Get(t, path)
		if body := string(r.Body); r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(body, "is not open yet: the store refuses the gateway's credentials") {
			t.Errorf("%s: got %d and %s, want 503 with the reason", path, r.Status, body)
		}
	}
	g.MustGet(t, "/v1/datasets/good"+batch)
	ready := func(name string) float64 { return g.Metric(t, "millrace_dataset_ready", `dataset="`+name+`"`) }
	if bad, good := ready("bad"), ready("good"); bad != 0 || good != 1 || !strings.Contains(g.Log(), "dataset bad is not open") {
		t.Errorf("got metrics %v and %v, want 0 and 1, and a line in the log", bad, good)
	}
	fault.Store(nil)
	if r, err := harness.Do(t.Context(), http.MethodPost, g.Admin+"/v1/reload"); err != nil || r.Status != http.StatusOK || !strings.Contains(string(r.Body), `"change":"new"`) {
		t.Fatalf("reload: got %d %s, %v", r.Status, r.Body, err)
	}
	if g.MustGet(t, "/v1/datasets/bad"+batch); ready("bad") != 1 {
		t.Error("after the reload: the metric is not 1")
	}
	g.MustGet(t, "/v1/datasets/mixed"+batch)
}
