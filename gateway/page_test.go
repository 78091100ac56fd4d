package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/dashboard"
)

// browser is Chromium's Accept header for a page.
const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// TestRoot_SendsThePageToBrowsersAndLinksToPrograms checks the root of both ports, which depends on
// the Accept header.
func TestRoot_SendsThePageToBrowsersAndLinksToPrograms(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.AdminListen = true })
	admin := httptest.NewServer(r.gateway.Admin())
	defer admin.Close()
	data := r.server
	defer func() { r.server = data }()
	for _, port := range []*httptest.Server{data, admin} {
		r.server = port
		for header, want := range map[string]string{
			browser: "text/html; charset=utf-8", "Accept: text/html": "text/html; charset=utf-8",
			"Accept: */*": "application/json", "Accept: application/json": "application/json", "Accept: text/html;q=0.5, application/json": "application/json",
		} {
			if a := r.do("GET", "/", header); a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != want || !strings.HasPrefix(a.Header.Get("Vary"), "Accept") {
				t.Errorf("%s: got status %d, %q, Vary %q, want 200 and %q", header, a.StatusCode, a.Header.Get("Content-Type"), a.Header.Values("Vary"), want)
			}
		}
		a := r.do("GET", "/", browser)
		if policy := a.Header.Get("Content-Security-Policy"); policy != dashboard.Policy || a.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("got the policy %q", policy)
		}
		for _, file := range []string{"../openapi.json", "%2e%2e%2fopenapi.yaml", "index.html%00", "x"} {
			if a := r.do("GET", "/page/"+file); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMovedPermanently {
				t.Errorf("%s: got status %d, want 404", file, a.StatusCode)
			}
		}
	}
}

// TestRoot_QuotesTheHost checks that the value of `try` is one shell command for any Host header.
func TestRoot_QuotesTheHost(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for _, host := range []string{"data.example:8080", "a';id;'", "a'$(id)"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.server.URL+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := r.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var root struct{ Try string }
		err = json.NewDecoder(res.Body).Decode(&root)
		if res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s %s' $# "$1"; }; tar() { cat; }; `+root.Try).Output()
		if want := "1 http://" + host + "/epoch/0/batch/0?format=tar"; err != nil || string(out) != want {
			t.Errorf("%s: curl got %q, %v, want %q", root.Try, out, err, want)
		}
	}
}

// TestRoot_LinksMatchThePort: the page shows the views for which the port has links.
func TestRoot_LinksMatchThePort(t *testing.T) {
	type root struct{ Links map[string]string }
	for name, c := range map[string]struct {
		edit func(*gateway.Config)
		data string // expected links of the data port
	}{
		"one port":   {func(*gateway.Config) {}, "datasets statistics"},
		"admin port": {func(c *gateway.Config) { c.AdminListen = true }, "datasets"},
		"cluster":    {func(c *gateway.Config) { c.Cluster = func() any { return nil } }, "cluster datasets statistics"},
	} {
		r := newRig(t, 20, 800, c.edit)
		var got root
		r.json("/", &got)
		if links := named(got.Links); links != c.data {
			t.Errorf("%s: got %q on the data port, want %q", name, links, c.data)
		}
		data, admin := r.server, httptest.NewServer(r.gateway.Admin())
		r.server = admin
		got = root{}
		r.json("/", &got)
		if links := named(got.Links); !strings.Contains(links, "statistics") || strings.Contains(links, "datasets") {
			t.Errorf("%s: got %q on the admin port, want statistics and no datasets", name, links)
		}
		admin.Close()
		r.server = data
	}
}

func named(links map[string]string) string {
	var out []string
	for _, name := range []string{"cluster", "datasets", "statistics"} {
		if links[name] != "" {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// TestPage_CompressesFiles checks that clients that accept gzip get compressed files, with a
// separate ETag.
func TestPage_CompressesFiles(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	plain := r.do("GET", "/page/app.js", "Accept-Encoding: identity")
	packed := r.do("GET", "/page/app.js", "Accept-Encoding: br, gzip")
	refused := r.do("GET", "/page/app.js", "Accept-Encoding: gzip;q=0")
	if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.body) >= len(plain.body) || packed.Header.Get("ETag") == plain.Header.Get("ETag") {
		t.Errorf("got %d bytes, %v, want fewer than %d, with another ETag", len(packed.body), packed.Header, len(plain.body))
	}
	if refused.Header.Get("Content-Encoding") != "" || string(refused.body) != string(plain.body) {
		t.Errorf("got %v although gzip is refused", refused.Header)
	}
	if a := r.do("GET", "/page/app.js", "Accept-Encoding: gzip", "If-None-Match: "+packed.Header.Get("ETag")); a.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for the ETag that was sent, want 304", a.StatusCode)
	}
}
