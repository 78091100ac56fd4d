package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
)

// TestRawRequests sends bytes that no client library would: each gets one answer, whatever follows it in the stream.
func TestRawRequests(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	addr, _ := r.serve(gateway.ServerConfig{})
	const second = "GET /v1/datasets HTTP/1.1\r\nHost: smuggled\r\nConnection: close\r\n\r\n"
	const get = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		raw  string
		want int
	}{
		"length and chunks":    {get + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 400},
		"chunks and length":    {get + "Transfer-Encoding: chunked\r\nContent-Length: 999\r\n\r\n0\r\n\r\n" + second, 400},
		"two lengths":          {get + "Content-Length: 0\r\nContent-Length: 9\r\n\r\n" + second, 400},
		"signed length":        {get + "Content-Length: +5\r\n\r\nhello" + second, 400},
		"list of lengths":      {get + "Content-Length: 5, 5\r\n\r\nhello" + second, 400},
		"obscured chunks":      {get + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second, 501},
		"chunks twice":         {get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second, 501},
		"space before colon":   {get + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + second, 400},
		"body with length":     {get + "Content-Length: 5\r\n\r\nhello" + second, 400},
		"body in chunks":       {get + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second, 400},
		"body never sent":      {get + "Content-Length: 1000000\r\n\r\n", 413},
		"post is refused":      {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", 405},
		"no version":           {"GET /healthz\r\n\r\n" + second, 400},
		"no request line":      {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n" + second, 400},
		"spaces in the line":   {"GET /healthz x HTTP/1.1\r\nHost: x\r\n\r\n" + second, 400},
		"unknown version":      {"GET /healthz HTTP/3.7\r\nHost: x\r\n\r\n" + second, 505},
		"preface of version 2": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + second, 501},
		"bad method":           {"G@T /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + second, 400},
		"no host":              {"GET /healthz HTTP/1.1\r\n\r\n" + second, 400},
		"two hosts":            {get + "Host: y\r\n\r\n" + second, 400},
		"bad host":             {"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n" + second, 400},
		"zero byte in header":  {get + "X: a\x00b\r\n\r\n" + second, 400},
		"header without colon": {get + "nonsense\r\n\r\n" + second, 400},
		"huge header":          {get + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431},
		"very many headers":    {get + strings.Repeat("X: a\r\n", 8<<10) + "\r\n", 431},
		"absolute form":        {"GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"folded id":            {get + "X-Request-Id: a\r\n b\r\nConnection: close\r\n\r\n", 200},
		"bare return in an id": {get + "X-Request-Id: a\rSet-Cookie: b\r\nConnection: close\r\n\r\n", 400},
		"old version":          {"GET /healthz HTTP/1.0\r\n\r\n", 200},
		"path outside":         {"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404},
		"zero byte in path":    {"GET /healthz%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404},
		"tunnel":               {"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example:443\r\nConnection: close\r\n\r\n", 405},
		"end in mid-header":    {get + "X: a", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the server lingers before it closes what it refused
			conn := dial(t, addr)
			_, _ = io.WriteString(conn, c.raw) // the server may close before it has read everything
			if c.want == 0 {
				conn.Close()
				return
			}
			got, _ := io.ReadAll(conn) // a reset after the answer is as good as an end
			if want := fmt.Sprintf(" %d ", c.want); len(got) < 20 || string(got[8:13]) != want {
				t.Errorf("got %.100q, want status %d", got, c.want)
			}
			if strings.Contains(string(got), "X-Request-Id: a") || strings.Contains(string(got), "Set-Cookie") {
				t.Errorf("got %.300q, want a new request id", got)
			}
			if n := strings.Count(string(got), "HTTP/1."); n != 1 {
				t.Errorf("got %d answers, want 1: %.1000q", n, got)
			}
		})
	}
}

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
