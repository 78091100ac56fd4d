package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/shuffle"
)

// TestLiveAnswersMatchTheSpecification compares status, headers and body of every route with the
// served document.
func TestLiveAnswersMatchTheSpecification(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.Mix = mix })
	r.source.warm = func(at shuffle.Cursor) (batch.Warmed, error) { return batch.Warmed{Next: at.First + 1}, nil }
	doc, err := openapi3.NewLoader().LoadFromData(r.do("GET", "/openapi.json").body)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	spec := specification{t, r, router}
	for _, c := range []struct {
		path   string
		header string
		status int
	}{
		{"/", "", 200},
		{"/", "Accept: text/html", 200},
		{"/page/app.js", "", 200},
		{"/page/style.css", "", 200},
		{"/page/none.js", "", 404},
		{"/page/app.js", "If-None-Match: *", 304},
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 200},
		{"/v1/stats", "", 200},
		{"/v1/stats?readers=list", "", 200},
		{"/v1/stats?readers=jobs", "", 200},
		{"/v1/stats?readers=3", "", 400},
		{"/v1/stats?reader=0", "", 400},
		{"/v1/cluster", "", 404},
		{"/openapi.json", "", 200},
		{"/v1/datasets", "", 200},
		{"/v1/datasets/photos", "", 200},
		{"/v1/datasets/other", "", 404},
		{"/v1/datasets/mix:photos(subset=samples:0-9&quarantine=samples:3):2,photos:1", "", 200},
		{"/v1/datasets/mix:photos(subset=samples:0-9&quarantine=samples:3):2,photos:1/epochs/0", "", 200},
		{"/v1/datasets/mix:photos:2/epochs/0/batches/0", "", 200},
		{"/v1/datasets/mix:photos:2/epochs/0/batches/0/manifest", "", 200},
		{"/v1/datasets/mix:photos", "", 400},
		{"/v1/datasets/photos/epochs/0/batches/0?subset=train=9,val=1:train~samples:0-9&quarantine=samples:3", "", 200},
		{"/v1/datasets/photos/epochs/0", "", 200},
		{"/v1/datasets/photos/epochs/0?shuffle=full&rank=1&world_size=3", "", 200},
		{"/v1/datasets/photos/epochs/0?shuffle=window&window=8&strata=4&share=locality&rank=1&world_size=3", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?shuffle=slot&window=8&share=locality&rank=1&world_size=3", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?shuffle=slot&window=8&strata=4", "", 400},
		{"/v1/datasets/photos/epochs/0/batches/0", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?tail=pad&batch_size=7", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/9", "", 404},
		{"/v1/datasets/photos/epochs/0/batches/0", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/epochs/0/batches/0", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches/0/manifest", "", 200},
		{"/v1/datasets/photos/epochs/0/samples?at=3,1", "", 200},
		{"/v1/datasets/photos/epochs/0/samples?at=3,1&format=framed&table=keys", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/epochs/0/samples?at=3,1", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/samples", "", 400},
		{"/v1/datasets/photos/epochs/0/samples/manifest?at=3,1", "", 200},
		{"/v1/datasets/photos/epochs/0/samples/manifest?at=3,1", "If-None-Match: *", 304},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "", 200},
		{"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0-3", "", 200},
		{"/v1/datasets/photos/epochs/0/draws", "", 200},
		{"/v1/datasets/photos/epochs/0/draws?shuffle=window&window=3&axis=drawn&from=1&to=2&to_chunk=1&columns=9&rows=9&batch_size=4", "", 200},
		{"/v1/datasets/photos/epochs/0/draws?shuffle=slot&window=3&axis=drawn&batch_size=4&tail=pad&rank=1&world_size=3", "", 200},
		{"/v1/datasets/photos/epochs/0/draws?axis=drawn&shuffle=full", "", 400},
		{"/v1/datasets/mix:photos:2/epochs/0/draws", "", 400},
		{"/v1/datasets/photos/epochs/0/draws", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches/1", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0", "Range: bytes=99999999-", 416},
		{"/v1/datasets/photos/epochs/0/batches/0", "Accept: text/html", 406},
		{"/v1/datasets/photos/epochs/0", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches/0/manifest", "If-None-Match: *", 304},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001&shard=train-0.tar", "", 200},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "If-None-Match: *", 304},
		{"/v1/datasets/photos/index", "", 200},
		{"/v1/datasets/photos/index", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/index", "If-None-Match: *", 304},
		{"/epoch/0/batch/0", "", 200},
		{"/epoch/0/batches?count=2", "", 200},
		{"/epoch/0/batches?count=2", "Range: bytes=70-90", 206},
		{"/epoch/0/batches?count=2", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches?from=1&count=3&format=arrow", "", 200},
		{"/v1/datasets/photos/epochs/0/batches?from=9", "", 404},
		{"/v1/datasets/photos/epochs/0/batches?count=1025", "", 400},
		{"/v1/datasets/photos/epochs/0/batches", "Accept: application/x-tar", 406},
		{"/v1/datasets/photos/epochs/0/batches/0?fields=cls", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?fields=jpg", "", 400},
		{"/v1/datasets/photos/epochs/0/batches/0?format=framed&table=keys,parts", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?format=multipart", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?format=mds", "Range: bytes=1-2", 206},
		{"/v1/datasets/photos/epochs/0?format=framed&table=keys&fields=cls", "", 200},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001&format=arrow&fields=cls", "", 200},
		{"/v1/datasets/photos/epochs/0/mds/index.json", "", 200},
		{"/v1/datasets/photos/epochs/0/mds/index.json", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/mds/index.json", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/epochs/0/mds/shard.00001.mds?seed=3", "", 200},
		{"/v1/datasets/photos/epochs/0/mds/seed=3/shard.00001.mds", "", 200},
		{"/v1/datasets/photos/epochs/0/mds/seed=3/shard.00001.mds", "Range: bytes=3-9", 206},
		{"/v1/datasets/photos/epochs/0/mds/shard.1.mds", "", 404},
		{"/v1/datasets/photos/epochs/0/wds/index.json", "", 200},
		{"/v1/datasets/photos/epochs/0/wds/seed=3&batch_size=5/000000.tar", "", 200},
		{"/v1/datasets/photos/epochs/0/wds/format=framed/000000.tar", "", 400},
		{"/v1/datasets/photos/epochs/0/wds/000004.tar", "", 404},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			if method == "HEAD" && strings.HasPrefix(c.header, "Range") {
				continue // ranges do not apply to HEAD
			}
			spec.check(method, c.path, "", c.status, r.do(method, c.path, splitHeader(c.header)...))
		}
	}
	together := newRig(t, 20, 800, func(c *gateway.Config) { c.Cluster = func() any { return map[string]string{"cluster": "job-a"} } })
	for _, method := range []string{"GET", "HEAD"} {
		spec.check(method, "/v1/cluster", "", 200, together.do(method, "/v1/cluster"))
	}
	read := newRig(t, 20, 800, func(c *gateway.Config) {
		now := gateway.Change{Name: "photos", Generation: c.Datasets[0].Index.Generation(), Change: "none"}
		c.Reload = func(context.Context, string) ([]gateway.Change, error) { return []gateway.Change{now}, nil }
	})
	spec.check("POST", "/v1/reload", "", 200, read.do("POST", "/v1/reload"))
	spec.check("POST", "/v1/reload", "", 404, r.do("POST", "/v1/reload"))
	report := r.reports(0, "seed=3", 1)[0]
	epoch := r.do("HEAD", "/v1/datasets/photos/epochs/0?seed=3").Header.Get("Content-Location")
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{importancePath, report, 200},
		{importancePath, `{"batches":[` + report + `]}`, 200},
		{importancePath, `{"batches":[]}`, 400},
		{importancePath, strings.Replace(report, "[", "[9", 1), 409},
		{importancePath + "/snapshots", `{"url":"` + epoch + `"}`, 201},
		{importancePath + "/snapshots", `{"url":"` + epoch + `"}`, 200},
		{subsetsPath, `{"subset":"samples:0-9"}`, 201},
		{subsetsPath + "?generation=" + r.index.Generation(), `{"subset":"samples:0-9"}`, 200},
		{subsetsPath, `{"keys":["nowhere"]}`, 400},
		{"/v1/datasets/photos/warm?epoch=1&from=3&shuffle=full", "", 200},
		{"/v1/datasets/other/warm", "", 404},
	} {
		spec.check("POST", c.path, c.body, c.status, r.post(c.path, c.body))
	}
	snapshot := r.freeze(http.StatusOK, 0, "seed=3", "").Snapshot
	for _, method := range []string{"GET", "HEAD"} {
		for path, status := range map[string]int{
			importancePath + "/" + snapshot: 200, importancePath + "/" + strings.Repeat("0", 64): 404,
			"/v1/datasets/photos/epochs/1?importance=" + snapshot: 200,
		} {
			spec.check(method, path, "", status, r.do(method, path))
		}
		spec.check(method, importancePath+"/"+snapshot, "", 304, r.do(method, importancePath+"/"+snapshot, "If-None-Match: *"))
	}
}

// specification compares responses with the OpenAPI document.
type specification struct {
	*testing.T
	r      *rig
	router routers.Router
}

func (s specification) check(method, path, body string, status int, a answer) {
	s.Helper()
	if a.StatusCode != status {
		s.Errorf("%s %s: got status %d, want %d: %s", method, path, a.StatusCode, status, a.body)
	}
	req, err := http.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	route, params, err := s.router.FindRoute(req)
	if err != nil {
		s.Errorf("%s %s: %v", method, path, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}, // the matrix tests rights
	}
	if err := openapi3filter.ValidateRequest(s.Context(), in); err != nil && status != http.StatusBadRequest {
		s.Errorf("%s %s: %v", method, path, err)
	}
	checkHeaders(s.T, method+" "+path, a, route.Operation)
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	if strings.HasPrefix(media, "application/vnd.") || slices.Contains([]string{"application/x-tar", "application/octet-stream", "multipart/mixed", "text/html", "text/css", "text/javascript"}, media) || a.StatusCode == http.StatusPartialContent {
		return // bytes without a schema
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.StatusCode, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(s.Context(), out); err != nil {
		s.Errorf("%s %s: %v", method, path, err)
	}
}

// checkHeaders compares the headers of a response with those in the document for its status, in
// both directions.
func checkHeaders(t *testing.T, what string, a answer, op *openapi3.Operation) {
	t.Helper()
	response := op.Responses.Status(a.StatusCode)
	if response == nil {
		response = op.Responses.Default()
	}
	declared := response.Value.Headers
	for name := range a.Header {
		switch name {
		case "Date", "Content-Type", "Content-Length": // every answer's
			continue
		}
		found := false
		for known := range declared {
			found = found || http.CanonicalHeaderKey(known) == name
		}
		if !found {
			t.Errorf("%s, status %d: header %s is not in the document", what, a.StatusCode, name)
		}
	}
	for name, header := range declared {
		if header.Value.Required && a.Header.Get(name) == "" {
			t.Errorf("%s, status %d: header %s is required by the document and not there", what, a.StatusCode, name)
		}
	}
}

// TestHeadIsGetWithoutTheBody compares the headers of HEAD and GET, for every kind of resource and
// error.
func TestHeadIsGetWithoutTheBody(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for _, path := range []string{
		"/", "/healthz", "/readyz", "/openapi.json", "/v1/datasets", "/v1/datasets/photos", "/v1/datasets/photos/epochs/0",
		"/epoch/0/batch/0", "/epoch/0/batch/1?generation=" + r.index.Generation(), "/epoch/0/batch/0?rank=99&world_size=100&batch_size=1",
		"/v1/datasets/photos/epochs/0/batches/0/manifest", "/v1/datasets/photos/sample?key=d0%2Fs00001",
		"/v1/datasets/photos/epochs/0/samples?at=3,1", "/v1/datasets/photos/epochs/0/samples/manifest?at=3,1",
		"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0-3", "/v1/datasets/photos/index", "/v1/datasets/photos/epochs/0/draws",
		"/epoch/0/batch/9", "/epoch/0/batch/0?seed=x", "/v1/datasets/absent", "/nope",
	} {
		get, head := r.do("GET", path, "X-Request-Id: same"), r.do("HEAD", path, "X-Request-Id: same")
		if head.StatusCode != get.StatusCode || len(head.body) != 0 {
			t.Errorf("%s: got status %d and %d bytes for HEAD, want %d and none", path, head.StatusCode, len(head.body), get.StatusCode)
		}
		for _, h := range []http.Header{get.Header, head.Header} {
			h.Del("Date")
			if h.Get("Server-Timing") != "" {
				h.Set("Server-Timing", "some")
			}
		}
		if diff := cmp.Diff(get.Header, head.Header); diff != "" {
			t.Errorf("%s: HEAD differs from GET:\n%s", path, diff)
		}
	}
}

// TestSpecificationNamesTheRightOfEachRoute compares the document with the routing tables.
func TestSpecificationNamesTheRightOfEachRoute(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	doc, err := openapi3.NewLoader().LoadFromData(r.do("GET", "/openapi.json").body)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.gateway.RouteTable(false) {
		path, _, narrowed := strings.Cut(row.Pattern, ":")
		if narrowed {
			path += "}"
		}
		item := doc.Paths.Value(path)
		if item == nil || item.GetOperation(row.Method) == nil {
			t.Errorf("%s %s: the document does not have it", row.Method, path)
			continue
		}
		op := item.GetOperation(row.Method)
		if got := op.Extensions["x-millrace-right"]; got != row.Right.String() {
			t.Errorf("%s %s: got right %v, want %s", row.Method, path, got, row.Right)
		}
		if open := op.Security != nil && len(*op.Security) == 0; open != (row.Right == auth.None) {
			t.Errorf("%s %s: needs right %s, and the document says that nobody is asked: %v", row.Method, path, row.Right, open)
		}
	}
}
