package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestMethodsThatNoRouteTakes: for an existing path the error lists its methods. An unknown path
// returns 404 for every method.
func TestMethodsThatNoRouteTakes(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	const read, write = "GET, HEAD, OPTIONS", "OPTIONS, POST"
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"POST", "/epoch/0/batch/0", 405, "method_not_allowed", read},
		{"DELETE", "/v1/datasets", 405, "method_not_allowed", read},
		{"DELETE", "/v1/datasets/a%2Fb", 405, "method_not_allowed", read},
		{"PUT", importancePath, 405, "method_not_allowed", write},
		{"GET", importancePath, 405, "method_not_allowed", write},
		{"GET", importancePath + "/snapshots", 405, "method_not_allowed", write},
		{"HEAD", importancePath + "/snapshots", 405, "", write},
		{"TRACE", "/healthz", 405, "method_not_allowed", read},
		{"OPTIONS", "/epoch/0/batch/0", 204, "", read},
		{"OPTIONS", importancePath + "/snapshots", 204, "", write},
		{"DELETE", "/nosuch", 404, "not_found", ""},
		{"OPTIONS", "/nosuch", 404, "not_found", ""},
		{"GET", importancePath + "/xyz", 404, "not_found", ""},
		{"FOO", "/nosuch", 501, "not_implemented", ""},
		{"FOO", "/healthz", 501, "not_implemented", ""},
	} {
		addr := strings.TrimPrefix(r.server.URL, "http://")
		conn := dial(t, addr)
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", c.method, c.path)
		res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.method})
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got status %d, Allow %q; want %d, %q", c.method, c.path, res.StatusCode, res.Header.Get("Allow"), c.status, c.allow)
		}
		if c.code != "" {
			checkProblem(t, answer{res, body}, c.status, c.code, false)
		}
	}
	if got := r.log.String(); !strings.Contains(got, `"method":"OPTIONS","route":"unknown","status":204`) {
		t.Errorf("got log %s, want the line of an OPTIONS", got)
	}
}

// TestOptionsOfTheServer: the real server passes OPTIONS * to the handler, so that it is counted
// like any other request.
func TestOptionsOfTheServer(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	addr, _ := r.serve(gateway.ServerConfig{})
	conn := dial(t, addr)
	fmt.Fprint(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent || res.Header.Get("Allow") != "GET, HEAD, OPTIONS, POST" || res.Header.Get("X-Request-Id") == "" {
		t.Errorf("got status %d, Allow %q, id %q; want 204, all methods and an id", res.StatusCode, res.Header.Get("Allow"), res.Header.Get("X-Request-Id"))
	}
}

// TestBrowsersLeaveAnswersAlone: no browser may interpret served data as a page.
func TestBrowsersLeaveAnswersAlone(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for path, file := range map[string]string{ // "": no data
		"/epoch/0/batch/1": "photos-epoch0-batch1.tar", "/epoch/3/batch/1?format=multipart&rank=1&world_size=2": "photos-epoch3-batch1-rank1.multipart",
		"/epoch/0/batches?count=2": "photos-epoch0-batch0.batches", "/epoch/0/batches?from=1&count=1": "photos-epoch0-batch1.batches",
		"/v1/datasets/photos/index": "photos.index", "/v1/datasets/photos/sample?key=d0%2Fs00001": "photos.tar",
		"/v1/datasets/photos/epochs/0/mds/index.json": "index.json", "/v1/datasets/photos/epochs/0/mds/seed=3/shard.00001.mds": "shard.00001.mds",
		"/healthz": "", "/v1/datasets": "", "/nosuch": "", "/epoch/0/batch/99": "", "/v1/datasets/photos/epochs/0/mds/nosuch": "",
	} {
		h := r.do("GET", path).Header
		if got := h.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: got X-Content-Type-Options %q, want nosniff", path, got)
		}
		kind, disposition := "", map[string]string{}
		if file != "" {
			var err error
			if kind, disposition, err = mime.ParseMediaType(h.Get("Content-Disposition")); err != nil || kind != "attachment" {
				t.Errorf("%s: got Content-Disposition %q and %v, want an attachment", path, h.Get("Content-Disposition"), err)
			}
		}
		if disposition["filename"] != file || h.Get("Content-Security-Policy") == "sandbox" != (file != "") {
			t.Errorf("%s: got file %q and policy %q, want file %q", path, disposition["filename"], h.Get("Content-Security-Policy"), file)
		}
	}
}

// TestProfilesHaveLimits checks the limits of profiles and traces on the admin port.
func TestProfilesHaveLimits(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.AdminListen = true })
	data := r.server
	defer func() { r.server.Close(); r.server = data }()
	r.server = httptest.NewServer(r.gateway.Admin())
	for _, seconds := range []string{"61", "-1", "0", "NaN", "x", "1e99", "0.5"} {
		checkProblem(t, r.do("GET", "/debug/pprof/profile?seconds="+seconds), 400, "invalid_argument", false)
		checkProblem(t, r.do("GET", "/debug/pprof/heap?seconds="+seconds), 400, "invalid_argument", false)
	}
	if a := r.do("GET", "/debug/pprof/trace?seconds=0.01"); a.StatusCode != http.StatusOK || len(a.body) == 0 {
		t.Errorf("a trace of 10 ms: got status %d and %d bytes, want 200 and some", a.StatusCode, len(a.body))
	}
	if got := r.log.String(); !strings.Contains(got, `"route":"/debug/pprof/trace","status":200`) {
		t.Errorf("got log %s, want the line of a trace", got)
	}
}

// TestRetryAfterIsSpread: clients refused together get different waits, so that they do not retry
// together.
func TestRetryAfterIsSpread(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.LameDuck = time.Nanosecond })
	r.gateway.Drain()
	waits, seconds := map[int64]bool{}, map[string]bool{}
	for range 40 {
		a := r.do("GET", "/readyz")
		p := checkProblem(t, a, 503, "draining", true)
		if p.RetryAfterMs < 500 || p.RetryAfterMs > 2500 {
			t.Errorf("got %d ms, want 500 to 2500", p.RetryAfterMs)
		}
		waits[p.RetryAfterMs], seconds[a.Header.Get("Retry-After")] = true, true
	}
	if len(waits) < 20 || len(seconds) < 2 {
		t.Errorf("got %d waits and %d values of Retry-After of 40, want at least 20 and 2", len(waits), len(seconds))
	}
}

// TestServeThatFailsLeavesNobodyWaiting: if the listener fails, Serve also cancels the requests in
// progress.
func TestServeThatFailsLeavesNobodyWaiting(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	bubble.Test(t, func(t *testing.T) {
		left, entered := false, make(chan struct{})
		r.source.before = func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			left = errors.Is(ctx.Err(), context.Canceled)
			return ctx.Err()
		}
		ln := newPipes()
		served := make(chan error, 1)
		go func() { served <- gateway.NewServer(r.gateway, gateway.ServerConfig{}).Serve(t.Context(), ln) }()
		conn := ln.dial()
		defer conn.Close()
		fmt.Fprintf(conn, "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-entered
		ln.Close()
		if err := <-served; err == nil || !left {
			t.Errorf("got %v, the handler let go: %v; want an error and true", err, left)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("got %d bytes of an open connection, want it closed", n)
		}
	})
}

// TestReaderThatIsTooSlowEndsTheNextRead: if the reader of the first of two batches is too slow,
// the gateway cancels the read of the second one.
func TestReaderThatIsTooSlowEndsTheNextRead(t *testing.T) {
	r := newRig(t, 160, 100<<10, fastDrain)
	reads, ended := 0, time.Duration(0)
	r.serveOne(t, gateway.ServerConfig{Connections: 1}, func(conn net.Conn) {
		began := time.Now()
		r.source.before = func(ctx context.Context) error {
			if reads++; reads == 1 {
				return nil
			}
			<-ctx.Done()
			ended = time.Since(began)
			return ctx.Err()
		}
		fmt.Fprintf(conn, "GET /epoch/0/batches?count=2&batch_size=80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		readSlowly(r, res, 256<<10, 5*time.Second, began) // below the minimum rate
		res.Body.Close()
	})
	if reads != 2 || ended == 0 || ended > 45*time.Second {
		t.Errorf("got %d reads, the second of them ended after %v; want 2 and 45 s at most", reads, ended)
	}
}
