package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/origin"
	"github.com/millrace-data/millrace/shuffle"
)

// TestWithoutAnAccessFile: a request without the required right gets a 403 with the remedy.
func TestWithoutAnAccessFile(t *testing.T) {
	r := newRig(t, 20, 800, func(cfg *gateway.Config) { cfg.Allow = []auth.Right{auth.Read} })
	for _, c := range []struct{ method, path, cure string }{
		{"POST", "/v1/datasets/photos/importance", "--allow report"},
		{"POST", "/v1/datasets/photos/importance/snapshots", "--allow report"},
		{"POST", "/v1/datasets/photos/subsets", "--allow report"},
		{"POST", "/v1/datasets/photos/schedules", "--allow report"},
		{"POST", "/v1/datasets/photos/warm", "--allow warm"},
		{"POST", "/v1/datasets/nosuch/warm", "--allow warm"},
		{"GET", "/metrics", "--insecure-admin"},
		{"GET", "/v1/stats", "--insecure-admin"},
	} {
		a := r.do(c.method, c.path)
		if a.StatusCode != http.StatusForbidden || !strings.Contains(string(a.body), c.cure) || !strings.Contains(string(a.body), "--access") {
			t.Errorf("%s %s: got status %d and %s, want 403 with %s and --access", c.method, c.path, a.StatusCode, a.body, c.cure)
		}
	}
	if a := r.do("GET", "/epoch/0/batch/0", "Authorization: Bearer nonsense"); a.StatusCode != http.StatusOK {
		t.Errorf("credentials that nobody asked for: got status %d, want 200", a.StatusCode)
	}
}

func TestCachesShareWhatEverybodyMayRead(t *testing.T) {
	m := newMatrix(t, nil)
	port, all := m.gateway.Handler(), m.by("all")
	for _, name := range allDatasets {
		base := "/v1/datasets/" + name + "/epochs/0"
		pinned := m.ask(port, all, "HEAD", base+"/batches/0", "").Header.Get("Content-Location")
		for _, c := range []struct{ path, open, closed string }{
			{pinned, "public, max-age=31536000, immutable", "private, max-age=31536000, immutable"},
			{base + "/batches/0", "no-cache", "private, no-cache"},
			{strings.Replace(pinned, "/batches/0", "", 1), "public, max-age=3600", "private, max-age=3600"},
			{base, "no-cache", "private, no-cache"},
		} {
			want := c.closed
			if name == "open" {
				want = c.open
			}
			if got := m.ask(port, all, "GET", c.path, "").Header.Get("Cache-Control"); got != want {
				t.Errorf("%s: got Cache-Control %q, want %q", c.path, got, want)
			}
		}
	}
}

func TestBodiesSayWhatTheyAre(t *testing.T) {
	m := newMatrix(t, nil)
	m.prepare()
	for kind, want := range map[string]int{
		"application/json": 200, "Application/JSON; charset=utf-8": 200, "text/plain": 415, "application/x-www-form-urlencoded": 415, "": 415, "application/json, text/plain": 415,
		"application/jsonp": 415, "multipart/form-data; boundary=x": 415,
	} {
		a := m.ask(m.gateway.Handler(), m.by("reporter"), "POST", "/v1/datasets/photos/importance", m.lost["report"], "Content-Type: "+kind)
		if a.StatusCode != want {
			t.Errorf("Content-Type %q: got status %d, want %d: %s", kind, a.StatusCode, want, a.body)
		}
	}
}

// TestLimitsOfCallers: each principal has its own limit, and so has each address without
// credentials.
func TestLimitsOfCallers(t *testing.T) {
	m := newMatrix(t, func(cfg *gateway.Config) { cfg.Origin = &origin.Policy{} })
	m.put(t, m.text+"limits: [{who: [\"*\"], requests: 0.001/s}]\n")
	if err := m.guard.Reload(); err != nil {
		t.Fatal(err)
	}
	status := func(c caller, dataset string) answer {
		return m.ask(m.gateway.Handler(), c, "HEAD", "/v1/datasets/"+dataset, "")
	}
	for _, name := range []string{"reader", "star", "jwt", "certificate"} {
		want := http.StatusOK
		if name == "jwt" {
			want = http.StatusNotFound
		}
		if a := status(m.by(name), "photos"); a.StatusCode != want {
			t.Errorf("%s: got status %d first, want %d", name, a.StatusCode, want)
		}
		for _, dataset := range []string{"photos", "scans", "scanz"} { // a rejected request counts too
			a := status(m.by(name), dataset)
			after, err := strconv.Atoi(a.Header.Get("Retry-After"))
			if a.StatusCode != http.StatusTooManyRequests || err != nil || after < 1 {
				t.Errorf("%s, %s: got status %d and Retry-After %q, want 429", name, dataset, a.StatusCode, a.Header.Get("Retry-After"))
			}
		}
	}
	metrics := m.ask(m.gateway.Admin(), m.by("boss"), "GET", "/metrics", "")
	if !strings.Contains(string(metrics.body), `code="429",dataset="photos"`) || strings.Contains(string(metrics.body), "scanz") {
		t.Errorf("got %s, want refusals of photos, and no dataset that is not served", metrics.body)
	}
	for i, c := range []struct {
		remote string
		want   int
	}{
		{"1.2.3.4:1", 200}, {"1.2.3.4:2", 429}, {"1.2.3.5:1", 200}, {"[2001:db8::1]:1", 200}, {"[2001:db8::2]:1", 429}, {"[2001:db8:0:1::1]:1", 200},
	} {
		if a := m.from(c.remote, "/v1/datasets/open"); a.StatusCode != c.want {
			t.Errorf("request %d, from %s: got status %d, want %d", i, c.remote, a.StatusCode, c.want)
		}
	}
}

// holding is a source whose reads wait until it is released.
type holding struct {
	gateway.Source
	began, release chan struct{}
}

func (h holding) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	h.began <- struct{}{}
	<-h.release
	return h.Source.Read(ctx, at, chunks)
}

// TestLimitOfMemory: a caller may hold one batch of any size. The next one is refused, is in the audit log, and
// counts for the dataset.
func TestLimitOfMemory(t *testing.T) {
	var lines func() string
	began, release := make(chan struct{}, 1), make(chan struct{})
	m := newMatrix(t, func(cfg *gateway.Config) {
		lines = audited(t, cfg)
		for i, d := range cfg.Datasets {
			cfg.Datasets[i].Source = holding{d.Source, began, release}
		}
	})
	m.put(t, m.text+"limits: [{who: [\"*\"], memory: 0.0000001}]\n")
	if err := m.guard.Reload(); err != nil {
		t.Fatal(err)
	}
	batch := func() int {
		return m.ask(m.gateway.Handler(), m.by("reader"), "GET", "/epoch/0/batch/0", "").StatusCode
	}
	first := make(chan int)
	go func() { first <- batch() }()
	<-began
	if got := batch(); got != http.StatusTooManyRequests {
		t.Errorf("a second batch: got status %d, want 429", got)
	}
	close(release)
	if got := <-first; got != http.StatusOK {
		t.Errorf("a first batch: got status %d, want 200", got)
	}
	if text := lines(); !strings.Contains(text, `"event":"refusal","principal":"token:reader"`) || !strings.Contains(text, `"dataset":"photos","status":429,`) {
		t.Errorf("got %s, want a line for the refusal", text)
	}
}

// from sends a request without credentials, from an address.
func (m *matrix) from(remote, path string) answer {
	r := httptest.NewRequestWithContext(m.t.Context(), "GET", path, nil)
	r.RemoteAddr = remote
	w := httptest.NewRecorder()
	m.gateway.Handler().ServeHTTP(w, r)
	return answer{w.Result(), w.Body.Bytes()}
}

// TestAuditLog: the log has a line for each write and each refusal, and none for other requests.
func TestAuditLog(t *testing.T) {
	var lines func() string
	m := newMatrix(t, func(cfg *gateway.Config) { lines = audited(t, cfg) })
	m.prepare()
	port := m.gateway.Handler()
	seen := strings.Count(lines(), "\n")
	for _, c := range []struct {
		caller, method, path, body, want string // "": no line
	}{
		{"reader", "GET", "/epoch/0/batch/0", "", ""},
		{"nobody", "GET", "/epoch/0/batch/0", "", ""}, // added up
		{"unknown token", "GET", "/epoch/0/batch/0", "", ""},
		{"boss", "GET", "/metrics", "", ""},
		{"nobody", "GET", "/healthz", "", ""},
		{"reader", "GET", "/v1/datasets/scans", "", `"event":"refusal","principal":"token:reader","address":"127.0.0.1","method":"GET","route":"/v1/datasets/{dataset}","right":"read","dataset":"scans","status":404,`},
		{"reader", "GET", "/v1/datasets/scanz", "", `"event":"refusal","principal":"token:reader","address":"127.0.0.1","method":"GET","route":"/v1/datasets/{dataset}","right":"read","dataset":"scanz","status":404,`},
		{"reader", "POST", "/v1/datasets/photos/warm", "", `"event":"refusal","principal":"token:reader","address":"127.0.0.1","method":"POST","route":"/v1/datasets/{dataset}/warm","right":"warm","dataset":"photos","status":403,`},
		{"reader", "GET", "/metrics", "", `"right":"admin","status":403,`},
		{"warmer", "POST", "/v1/datasets/photos/warm", "", `"event":"write","principal":"token:warmer","address":"127.0.0.1","method":"POST","route":"/v1/datasets/{dataset}/warm","right":"warm","dataset":"photos","status":200,`},
		{"reporter", "POST", "/v1/datasets/photos/importance", m.lost["report"], `"event":"write","principal":"token:reporter"`},
		{"reporter", "POST", "/v1/datasets/photos/importance", "{", `"status":400,`},
		{"certificate", "GET", "/v1/datasets/scans", "", `"principal":"certificate:ops.example"`},
		{"jwt", "GET", "/v1/datasets/photos", "", `"principal":"jwt:corp#alice"`},
	} {
		m.ask(port, m.by(c.caller), c.method, c.path, c.body)
		all := strings.SplitAfter(lines(), "\n")
		fresh := all[seen : len(all)-1]
		seen = len(all) - 1
		if c.want == "" && len(fresh) != 0 || c.want != "" && (len(fresh) != 1 || !strings.Contains(fresh[0], c.want)) {
			t.Errorf("%s %s as %s: got lines %s, want %q", c.method, c.path, c.caller, fresh, c.want)
			continue
		}
		for _, line := range fresh {
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.RequestID == "" || e.RequestID == "same" || e.CallerRequestID != "same" || e.Time.IsZero() {
				t.Errorf("got %s and %v, want both request ids and a time", line, err)
			}
		}
	}
}

// TestFullDiskOfTheAuditLog: the gateway rejects writes while the disk is full, and still sends
// batches.
func TestFullDiskOfTheAuditLog(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "audit.log")
	if err := os.Symlink("/dev/full", name); err != nil {
		t.Fatal(err)
	}
	m := newMatrix(t, func(cfg *gateway.Config) {
		var err error
		if cfg.Audit, err = audit.Open(name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cfg.Audit.Close() })
	})
	port := m.gateway.Handler()
	m.ask(port, m.by("nothing"), "GET", "/v1/datasets/photos", "") // a refusal whose line cannot be written
	for range 3 {
		a := m.ask(port, m.by("warmer"), "POST", "/v1/datasets/photos/warm", "")
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "audit_unavailable") || a.Header.Get("Retry-After") == "" {
			t.Errorf("a write: got status %d and %s, want 503 audit_unavailable", a.StatusCode, a.body)
		}
		if a := m.ask(port, m.by("reader"), "GET", "/epoch/0/batch/0", ""); a.StatusCode != http.StatusOK {
			t.Errorf("a batch: got status %d, want 200", a.StatusCode)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if a := m.ask(port, m.by("warmer"), "POST", "/v1/datasets/photos/warm", ""); a.StatusCode != http.StatusOK {
		t.Errorf("a write once the log takes lines: got status %d, want 200: %s", a.StatusCode, a.body)
	}
	text, err := os.ReadFile(name)
	if got := strings.Count(string(text), "\n"); err != nil || got != 5 {
		t.Errorf("got %d lines and %v, want 5: one refusal, three writes that were refused, and one that was not:\n%s", got, err, text)
	}
}

// TestHostAndSite: a port on loopback accepts only its own host names. Requests from pages of other
// sites are refused, even with valid credentials.
func TestHostAndSite(t *testing.T) {
	m := newMatrix(t, fastDrain)
	addr, _ := m.serve(gateway.ServerConfig{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		header string
		want   int
	}{
		{"Accept: */*", 200},
		{"Host: evil.example", 421},
		{"Host: localhost.evil.example:80", 421},
		{"Host: LOCALHOST", 200},
		{"Origin: https://evil.example", 403},
		{"Sec-Fetch-Site: cross-site", 403},
		{"X-Forwarded-For: 1.2.3.4", 200},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/epoch/0/batch/0", nil)
		req.Header["Authorization"] = m.by("reader").headers
		name, value, _ := strings.Cut(c.header, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: got status %d, want %d", c.header, res.StatusCode, c.want)
		}
	}
}
