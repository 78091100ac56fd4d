package integration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

const nginxConfig = `
daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  proxy_cache_path %[1]s/cache keys_zone=batches:1m max_size=256m;
  server {
    listen %[2]s;
    location / {
      proxy_pass %[3]s;
      proxy_cache batches;
      add_header X-Cache $upstream_cache_status;
    }
  }
}
`

func nginxPath(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("nginx"); err == nil {
		return path
	}
	if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
		t.Fatalf("find nginx: %v; run make deps", err)
	}
	return "/usr/sbin/nginx"
}

// TestCachingProxyServesARepeatedEpoch puts a plain nginx in front of the gateway. It
// knows nothing of Millrace; the second reading of an epoch must not reach the gateway.
func TestCachingProxyServesARepeatedEpoch(t *testing.T) {
	_, g, content := served(t)
	behind, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(behind)
	counter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		forward.ServeHTTP(w, r)
	}))
	defer counter.Close()

	dir, address := t.TempDir(), harness.FreeAddress(t)
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, address, counter.URL), 0o644); err != nil {
		t.Fatal(err)
	}
	proxy := &harness.Gateway{
		Process: harness.Start(t, "nginx", nginxPath(t), os.Environ(), "-p", dir, "-e", "stderr", "-c", config),
		URL:     "http://" + address,
	}
	proxy.Ready(t, harness.Answers(proxy.URL+"/healthz"))

	start, err := url.Parse(g.MustGet(t, "/epoch/0/batch/0").Header.Get("Content-Location"))
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, content)
	read := func() int64 {
		t.Helper()
		before := reached.Load()
		for m := range batches(t, g, 0, 32) {
			query := start.Query()
			query.Set("batch_size", "32")
			path := batchPath(0, m) + "?" + query.Encode()
			r.count(path, proxy.MustGet(t, path))
		}
		r.endEpoch("through nginx")
		return reached.Load() - before
	}
	n := int64(batches(t, g, 0, 32))
	if got := read(); got != n {
		t.Errorf("first reading: got %d requests at the gateway, want %d", got, n)
	}
	if got := read(); got != 0 {
		t.Errorf("second reading: got %d requests at the gateway, want none", got)
	}
}
