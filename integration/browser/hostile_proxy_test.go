package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

// lie is a way in which a proxy between the page and the gateway falsifies the responses of /v1/.
type lie struct {
	name string
	tell func(*http.Response)
	says string // expected text on the page
}

// problem is a problem document in which all texts are markup. It also has members that problem
// documents do not define.
var problem = fmt.Sprintf(`{"type": %[1]s, "title": %[1]s, "detail": %[1]s, "code": "ambiguous_key", "instance": %[1]s, "request_id": %[1]s, "faults": [null, 1, %[1]s, {"parameter": %[1]s, "reason": %[1]s}, {"parameter": {}, "reason": []}],
	"shards": [%[1]s, null, {"a": 1}], "retryable": "yes", "retry_after_ms": "<b>", "__proto__": {"polluted": 1}}`, quoted(markup))

func lies() []lie {
	answer := func(status int, kind, body string) func(*http.Response) {
		return func(r *http.Response) { replace(r, status, kind, body) }
	}
	return []lie{
		{"a problem of markup", answer(http.StatusConflict, "application/problem+json", problem), "onload=alert(3)"},
		{"a problem that is no object", answer(http.StatusBadRequest, "application/problem+json", "null"), "status 400"},
		{"a page of a proxy's, for an error", answer(http.StatusBadGateway, "text/html", "<html><body onload=alert(1)>"+markup), "status 502"},
		{"a page of a proxy's, for an answer", answer(http.StatusOK, "text/html", "<html><body onload=alert(1)>"+markup), "Invalid response"},
		{"an answer that is no object", answer(http.StatusOK, "application/json", "null"), "Invalid response"},
		{"a way to another host", func(r *http.Response) {
			replace(r, http.StatusFound, "text/html", "")
			r.Header.Set("Location", "http://127.0.0.9/")
		}, "The gateway does not answer"},
		{"texts that are markup", everyText(func(string) any { return markup }), "onload=alert(3)"},
		{"texts that are markup behind what they were", everyText(func(text string) any { return text + markup }), "onload=alert(3)"},
		{"texts of 6 kilobytes", everyText(func(string) any { return strings.Repeat("<b>\u202e", 1<<10) }), `<b>\u202e`},
		{"texts that are names of every object's", everyText(func(string) any { return "__proto__" }), "__proto__"},
	}
}

// replace replaces a response.
func replace(r *http.Response, status int, kind, body string) {
	_ = r.Body.Close()
	r.StatusCode, r.ContentLength, r.Body = status, int64(len(body)), io.NopCloser(strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {kind}, "Content-Length": {fmt.Sprint(len(body))}}
}

// everyText returns a function that changes each text in a JSON response.
func everyText(change func(string) any) func(*http.Response) {
	var all func(v any) any
	all = func(v any) any {
		switch v := v.(type) {
		case string:
			return change(v)
		case []any:
			for i := range v {
				v[i] = all(v[i])
			}
		case map[string]any:
			for name := range v {
				v[name] = all(v[name])
			}
		}
		return v
	}
	return func(r *http.Response) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal(body, &v) == nil {
			if body, err = json.Marshal(all(v)); err != nil {
				panic(err) // it was decoded from JSON
			}
			r.Header.Set("Millrace-Batches", "1e999<b>")
			r.Header.Del("Content-Length")
			r.Header.Del("ETag")
			r.ContentLength = -1
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// liar starts a proxy that serves both ports of a gateway as one, and the pages of a cluster.
func liar(t *testing.T, g *harness.Gateway, l lie) string {
	t.Helper()
	data, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := url.Parse(g.Admin)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Accept-Encoding")
			if strings.HasPrefix(r.Out.URL.Path, "/v1/stats") {
				r.SetURL(admin)
			} else {
				r.SetURL(data)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			switch path := r.Request.URL.Path; {
			case path == "/" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
				replace(r, http.StatusOK, "application/json", fmt.Sprintf(`{"version": %s, "links": {"datasets": "/", "statistics": "/", "cluster": "/"}}`, quoted(markup)))
			case path == "/v1/cluster":
				replace(r, http.StatusOK, "application/json", `{"self": {"id": "a", "state": "up", "address": "b"}, "members": [{"id": "c", "state": "gone", "address": "d", "reason": "e", "latency_ms": 1, "asked": {"bytes": 1}}]}`)
				l.tell(r)
			case strings.HasPrefix(path, "/v1/"):
				l.tell(r)
			}
			return nil
		},
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// TestHostileAnswers shows every view behind a proxy whose responses, problems and names contain
// markup. No markup is executed, no script fails, and the view shows the response.
func TestHostileAnswers(t *testing.T) {
	store := harness.Open(t, "dir")
	put(t, filepath.Join(store.Path, dataset), file{"a.tar", archive(t, file{"a.txt", markup}, file{"b.json", "{}"})})
	harness.MustRun(t, store, "index", store.Dataset(dataset))
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	harness.MustRun(t, store, "fetch", g.URL, "--world-size", "2", "--all-ranks")
	fragments := []string{"#/status", "#/data", "#/data/photos", "#/data/photos/epochs/0/batches/0", "#/data/photos/epochs/0/batches/0?sample=0", "#/data/photos/sample?key=a", "#/shuffle/photos", "#/performance", "#/performance?sort=__proto__"}
	list, err := json.Marshal(fragments)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t)
	for _, l := range lies() {
		t.Run(l.name, func(t *testing.T) {
			v := b.tab(t, liar(t, g, l))
			v.begin()
			var found walk
			v.do(chromedp.Evaluate(fmt.Sprintf("visit(%s)", list), &found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			for _, fault := range found.Faults {
				t.Errorf("%.600s", fault)
			}
			if found.Samples != len(fragments) || !strings.Contains(found.Said, l.says) {
				t.Errorf("got %d views that say %.1000q, want %q", found.Samples, found.Said, l.says)
			}
			v.clean(l.name)
		})
	}
}
