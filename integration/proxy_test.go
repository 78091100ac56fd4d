package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// front is a proxy of deploy/proxies.
type front struct {
	name, config string
	program      string
	keeps        bool                       // caches responses for pinned URLs
	byRank       bool                       // routes each rank to its gateway
	args         func(dir string) []string  // to run in the foreground, in a separate directory
	more         func(listen string) string // arguments with the address, if the configuration has none
}

func fronts() []front {
	return []front{
		{name: "nginx", config: "nginx.conf", program: "nginx", keeps: true, byRank: true, args: nginxArgs("nginx.conf")},
		{name: "haproxy", config: "haproxy.cfg", program: "haproxy", byRank: true, args: func(dir string) []string {
			return []string{"-db", "-f", filepath.Join(dir, "haproxy.cfg")}
		}},
		{name: "envoy", config: "envoy.yaml", program: "envoy", byRank: true, args: func(dir string) []string {
			return []string{"-c", filepath.Join(dir, "envoy.yaml"), "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning"}
		}},
		{name: "varnish", config: "varnish.vcl", program: "varnishd", keeps: true, args: func(dir string) []string {
			return []string{
				"-F", "-j", "none", "-n", dir, "-f", filepath.Join(dir, "varnish.vcl"), "-s", "malloc,256m",
				"-p", "http_req_hdr_len=20k", "-p", "http_req_size=48k", "-p", "vsl_space=1m",
			}
		}, more: func(listen string) string { return "-a " + listen }},
	}
}

func nginxArgs(config string) func(dir string) []string {
	return func(dir string) []string {
		return []string{"-p", dir, "-c", config, "-e", "stderr", "-g", "daemon off; master_process off; error_log stderr warn;"}
	}
}

// installed returns the path of a system program, which may be in a directory for root, or of Envoy
// in the cache.
func installed(t *testing.T, name string) string {
	t.Helper()
	if name == "envoy" {
		return harness.Installed(t, name)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := "/usr/sbin/" + name
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("find %s: %v; run make deps", name, err)
	}
	return path
}

// startFront starts a proxy with its configuration in deploy/proxies, in front of the given gateway
// addresses. The configuration lists four addresses; the gateways fill them in turn. edit changes
// the configuration as its comments describe.
func startFront(t *testing.T, f front, edit func(string) string, gateways ...string) (proxy *harness.Gateway, dir string) {
	t.Helper()
	proxy, dir = launchFront(t, f, edit, gateways...)
	proxy.Ready(t, harness.Answers(proxy.URL+"/healthz"))
	return proxy, dir
}

func launchFront(t *testing.T, f front, edit func(string) string, gateways ...string) (proxy *harness.Gateway, dir string) {
	t.Helper()
	dir, listen := t.TempDir(), harness.FreeAddress(t)
	places := placesOf("127.0.0.1:8000", listen)
	for i := range 4 {
		places = append(places, placesOf(fmt.Sprintf("127.0.0.1:%d", 8080+i), gateways[i%len(gateways)])...)
	}
	configs := os.DirFS(filepath.Join("..", "deploy", "proxies"))
	text, err := fs.ReadFile(configs, f.config)
	if err == nil {
		err = os.CopyFS(dir, configs)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, f.config), []byte(strings.NewReplacer(places...).Replace(edit(string(text)))), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := f.args(dir)
	if f.more != nil {
		args = append(args, strings.Fields(f.more(listen))...)
	}
	process := harness.Start(t, f.name, installed(t, f.program), os.Environ(), args...)
	return harness.Front(t, process, "http://"+listen), dir
}

// placesOf returns pairs of replacements that change an address in a configuration: in the syntax
// of nginx and HAProxy, of Varnish and of Envoy.
func placesOf(address, by string) (pairs []string) {
	words := func(address string) []string {
		host, port, _ := strings.Cut(address, ":")
		return []string{address, fmt.Sprintf(".host = %q;\n  .port = %q", host, port), fmt.Sprintf("{address: %s, port_value: %s}", host, port)}
	}
	for i, word := range words(address) {
		pairs = append(pairs, word, words(by)[i])
	}
	return pairs
}

func asItIs(config string) string { return config }

// relay forwards connections to a gateway, and can cut all of them in the middle of a response.
type relay struct {
	address string
	left    atomic.Int64 // response bytes until cut is called; none: never
	cut     func()
}

// startRelay starts a relay in front of a gateway's address.
func startRelay(t *testing.T, gateway string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.carry(conn, gateway) })
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return r
}

func (r *relay) carry(asker net.Conn, gateway string) {
	defer asker.Close()
	there, err := net.Dial("tcp", gateway)
	if err != nil {
		return
	}
	defer there.Close()
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(there, asker)
		there.Close()
	})
	buffer := make([]byte, 16<<10)
	for {
		n, err := there.Read(buffer)
		if left := r.left.Load(); left > 0 && r.left.Add(-int64(n)) <= 0 {
			_, _ = asker.Write(buffer[:left])
			r.cut()
			break
		}
		if _, failed := asker.Write(buffer[:n]); err != nil || failed != nil {
			break
		}
	}
	asker.Close()
	asking.Wait()
}

// TestProxiesInFront reads epochs through each proxy with its configuration in deploy/proxies.
// Pinned and unpinned URLs return the same bytes and headers as the gateway, and incomplete
// responses are errors.
func TestProxiesInFront(t *testing.T) {
	files, content := harness.Files(t, 200, 200_000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "1MiB")
	access, _ := openAccess(t)
	plan := harness.Packed(t, store, dataset)
	for _, f := range fronts() {
		t.Run(f.name, func(t *testing.T) {
			r := newReader(t, content, plan)
			g := harness.Serve(t, store, dataset, "--access", access, "--cache-size", "256MiB", "--lame-duck", "30s", "MILLRACE_DRAIN_TIMEOUT=1s")
			line := startRelay(t, strings.TrimPrefix(g.URL, "http://"))
			proxy, dir := startFront(t, f, asItIs, line.address)
			p := passage{t, f, g, proxy}
			p.epochs(r, dir)
			p.answers()
			p.leave()
			line.cut = g.Kill
			p.die(line)
		})
	}
}

// passage is a proxy in front of a gateway.
type passage struct {
	*testing.T
	front
	gateway, proxy *harness.Gateway
}

// askedFor returns the number of requests for batches that a gateway has counted. It counts a
// request shortly after the last byte of the response.
func askedFor(t *testing.T, g *harness.Gateway) int {
	t.Helper()
	awaitNobody(t, g)
	return int(g.Metric(t, "millrace_http_requests_total", `/batches/{batch}"`))
}

// epochs reads an epoch from the gateway and twice through the proxy, with and without a generation
// in the URL. The proxy revalidates responses for unpinned URLs, and caches none of them.
func (p passage) epochs(r *reader, dir string) {
	const size = 16
	n := batches(p.T, p.gateway, 0, size)
	place, err := url.Parse(p.gateway.MustGet(p, batchPath(0, 0)+share(size, 0, 1)).Header.Get("Content-Location"))
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range []struct {
		what, query string
		asked       int // requests that reach the gateway
	}{
		{"not pinned", share(size, 0, 1), n},
		{"not pinned, again", share(size, 0, 1), n},
		{"pinned", "?" + place.RawQuery, n},
		{"pinned, again", "?" + place.RawQuery, 0},
	} {
		want := make([]harness.Response, n)
		for m := range n {
			want[m] = p.gateway.MustGet(p, batchPath(0, m)+c.query, "Accept-Encoding", "gzip, br")
		}
		before := askedFor(p.T, p.gateway)
		for m := range n {
			path := batchPath(0, m) + c.query
			got := p.proxy.MustGet(p, path, "Accept-Encoding", "gzip, br")
			r.take(path, got)
			p.compare(c.what+": "+path, want[m], got)
		}
		r.endEpoch(p.name + ", " + c.what)
		if c.asked == 0 && !p.keeps {
			c.asked = n
		}
		if asked := askedFor(p.T, p.gateway) - before; asked != c.asked {
			p.Errorf("%s: got %d requests at the gateway, want %d", c.what, asked, c.asked)
		}
		if stored := bytesBelow(p.T, dir); strings.HasPrefix(c.what, "not") && stored > 1<<20 {
			p.Errorf("%s: got %d bytes in the proxy's directory, want none of the batches there", c.what, stored)
		}
	}
}

// bytesBelow returns the total size of the files in a directory, without the log that Varnish maps
// into memory.
func bytesBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "_.vsm") {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// compare requires a response through the proxy to equal the gateway's own.
func (p passage) compare(what string, want, got harness.Response) {
	p.Helper()
	if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
		p.Errorf("%s: got %d and %d bytes, want %d and the gateway's %d", what, got.Status, len(got.Body), want.Status, len(want.Body))
	}
	ours := slices.Sorted(maps.Keys(want.Header))
	for _, name := range ours {
		switch name {
		case "Date", "Server-Timing", "X-Request-Id", "Connection":
		case "Accept-Ranges": // nginx omits it in partial cached responses
			if got.Status == http.StatusPartialContent {
				continue
			}
			fallthrough
		default:
			if g, w := got.Header.Get(name), want.Header.Get(name); g != w {
				p.Errorf("%s: got %s %q, want %q", what, name, g, w)
			}
		}
	}
	for _, name := range []string{"Transfer-Encoding", "Content-Encoding", "Last-Modified", "Set-Cookie"} {
		if g := got.Header.Get(name); g != "" && !slices.Contains(ours, name) {
			p.Errorf("%s: got %s %q, want none", what, name, g)
		}
	}
}

// answers sends conditional and range requests, other methods and faulty requests, and compares the
// responses with the gateway's own.
func (p passage) answers() {
	const short = "/epoch/0/batch/1?batch_size=16"
	whole := p.gateway.MustGet(p, short)
	etag, pinned := whole.Header.Get("ETag"), whole.Header.Get("Content-Location")
	for _, path := range []string{short, pinned} {
		for _, header := range [][]string{
			{"If-None-Match", etag},
			{"If-None-Match", `"other"`},
			{"If-Match", etag},
			{"Range", "bytes=100-299"},
			{"Range", "bytes=-1024"},
			{"Range", "bytes=700-", "If-Range", etag},
			{"Range", "bytes=700-", "If-Range", `"other"`},
			{"Range", "bytes=999999999-"},
		} {
			header = append(header, "X-Request-Id", "the-same-request") // an error body repeats this ID
			want, got := p.gateway.Get(p, path, header...), p.proxy.Get(p, path, header...)
			if p.keeps && path == pinned && want.Status == http.StatusRequestedRangeNotSatisfiable {
				want = harness.Response{Status: want.Status, Body: got.Body} // the proxy writes its own error
			}
			p.compare(fmt.Sprint(path, header), want, got)
		}
		head, err := harness.Do(p.Context(), http.MethodHead, p.proxy.URL+path)
		if err != nil || head.Header.Get("Content-Length") != whole.Header.Get("Content-Length") || head.Header.Get("ETag") != etag || len(head.Body) > 0 {
			p.Errorf("HEAD %s: got %d, %v and %v, want the headers of the batch", path, head.Status, head.Header, err)
		}
	}
	if got := p.proxy.Get(p, short, "If-Match", `"other"`); got.Status != http.StatusPreconditionFailed {
		p.Errorf("If-Match of another version: got %d, want 412", got.Status)
	}
	long := "/v1/datasets/photos/sample?key=" + strings.Repeat("%41", 4096) // 12 KiB
	for path, status := range map[string]int{
		"/epoch/0/batch/99999": 404, "/nosuch": 404, "/epoch/0/batch/0?batch_size=0": 400, long: 404,
		"/v1/datasets/%2e%2e": 401, "/v1/datasets/a%2Fb": 401, "/v1/datasets/photos/epochs/0/batches/0?seed=%zz": 400,
		"/epoch/0/batch/0?format=nosuch": 400, "/v1/datasets/photos/sample?key=" + strings.Repeat("A", 17<<10): 414,
	} {
		want, got := p.gateway.Get(p, path, "X-Request-Id", "the-same-request"), p.proxy.Get(p, path, "X-Request-Id", "the-same-request")
		if want.Status != status {
			p.Errorf("%.100s: got %d at the gateway, want %d", path, want.Status, status)
		}
		p.compare(path[:min(len(path), 100)], want, got)
	}
	got, err := harness.Do(p.Context(), http.MethodDelete, p.proxy.URL+"/v1/datasets")
	if err != nil || got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		p.Errorf("DELETE: got %d, Allow %q, %v; want 405 and the methods", got.Status, got.Header.Get("Allow"), err)
	}
}

// wholeEpoch returns the path of an epoch in one batch of about 30 MB.
func wholeEpoch(n int) string { return fmt.Sprintf("/epoch/%d/batch/0?batch_size=200", n) }

// leave disconnects clients in the middle of large bodies: the gateway's requests end too.
func (p passage) leave() {
	for epoch := range 4 {
		ctx, cancel := context.WithCancel(p.Context())
		res := p.open(ctx, wholeEpoch(epoch))
		if _, err := io.CopyN(io.Discard, res.Body, 64<<10); err != nil {
			p.Errorf("read the begin of a batch: %v", err)
		}
		cancel()
		res.Body.Close()
	}
	awaitNobody(p.T, p.gateway)
	if got := p.proxy.MustGet(p, wholeEpoch(1)); len(got.Body) < 10<<20 {
		p.Errorf("the batch that was left: got %d bytes, want all", len(got.Body))
	}
}

func (p passage) open(ctx context.Context, path string) *http.Response {
	p.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.proxy.URL+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	return res
}

// die tells the gateway to shut down, which clients see as an error with Retry-After, and kills it
// in the middle of a body.
func (p passage) die(line *relay) {
	pinned := p.gateway.MustGet(p, wholeEpoch(7)).Header.Get("Content-Location")
	p.gateway.Terminate()
	var got harness.Response
	p.gateway.Ready(p, func(ctx context.Context) (err error) {
		if got, err = p.gateway.Try(ctx, "/readyz"); err == nil && got.Status == http.StatusOK {
			err = fmt.Errorf("still ready")
		}
		return err
	})
	got, err := p.proxy.Try(p.Context(), "/readyz")
	if err != nil || got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || problemOf(p.T, got).Code != "draining" {
		p.Errorf("/readyz of a gateway that shuts down: got %d, %v, %s and %v; want its problem with Retry-After", got.Status, got.Header, got.Body, err)
	}
	line.left.Store(5 << 20)
	res := p.open(p.Context(), pinned)
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil || res.StatusCode != http.StatusOK || n >= res.ContentLength {
		p.Errorf("a gateway that was killed: got %d, %d bytes of %d and %v, want an error before the end", res.StatusCode, n, res.ContentLength, err)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	if again, err := p.proxy.Try(ctx, pinned); err == nil && again.Status < 500 {
		p.Errorf("the batch that was cut off: got %d and %d bytes, want nothing kept of it", again.Status, len(again.Body))
	}
}
