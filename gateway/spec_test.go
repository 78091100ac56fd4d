package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
)

// TestLiveAnswersMatchTheSpecification holds status, headers and body of every route to the document that is served.
func TestLiveAnswersMatchTheSpecification(t *testing.T) {
	r := newRig(t, 20, 800, nil)
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
	for _, c := range []struct {
		path   string
		header string
		status int
	}{
		{"/", "", 200},
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 200},
		{"/v1/stats", "", 200},
		{"/openapi.json", "", 200},
		{"/v1/datasets", "", 200},
		{"/v1/datasets/photos", "", 200},
		{"/v1/datasets/other", "", 404},
		{"/v1/datasets/photos/epochs/0", "", 200},
		{"/v1/datasets/photos/epochs/0?shuffle=full&rank=1&world_size=3", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0?tail=pad&batch_size=7", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/9", "", 404},
		{"/v1/datasets/photos/epochs/0/batches/0", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/epochs/0/batches/0", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches/0/manifest", "", 200},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "", 200},
		{"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0-3", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/1", "", 200},
		{"/v1/datasets/photos/epochs/0/batches/0", "Range: bytes=99999999-", 416},
		{"/v1/datasets/photos/epochs/0/batches/0", "Accept: text/html", 406},
		{"/v1/datasets/photos/epochs/0", "If-None-Match: *", 304},
		{"/v1/datasets/photos/epochs/0/batches/0/manifest", "If-None-Match: *", 304},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/sample?key=d0%2Fs00001", "If-None-Match: *", 304},
		{"/v1/datasets/photos/index", "", 200},
		{"/v1/datasets/photos/index", "Range: bytes=0-9", 206},
		{"/v1/datasets/photos/index", "If-None-Match: *", 304},
		{"/epoch/0/batch/0", "", 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			if method == "HEAD" && strings.HasPrefix(c.header, "Range") {
				continue // a HEAD has no ranges
			}
			a := r.do(method, c.path, splitHeader(c.header)...)
			if a.StatusCode != c.status {
				t.Errorf("%s %s: got status %d, want %d", method, c.path, a.StatusCode, c.status)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			route, params, err := router.FindRoute(req)
			if err != nil {
				t.Errorf("%s %s: %v", method, c.path, err)
				continue
			}
			in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}
			if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
				t.Errorf("%s %s: %v", method, c.path, err)
			}
			checkHeaders(t, method+" "+c.path, a, route.Operation)
			media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
			if media == "application/x-tar" || media == "application/octet-stream" {
				a.body = nil // bytes without a structure
				continue
			}
			out := &openapi3filter.ResponseValidationInput{
				RequestValidationInput: in, Status: a.StatusCode, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.body)),
				Options: &openapi3filter.Options{IncludeResponseStatus: true},
			}
			if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
				t.Errorf("%s %s: %v", method, c.path, err)
			}
		}
	}
}

// checkHeaders holds the headers of an answer to those that the document names for its status, both ways.
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

// TestHeadIsGetWithoutTheBody compares the headers of both, for every kind of resource and of failure.
func TestHeadIsGetWithoutTheBody(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for _, path := range []string{
		"/", "/healthz", "/readyz", "/openapi.json", "/v1/datasets", "/v1/datasets/photos", "/v1/datasets/photos/epochs/0",
		"/epoch/0/batch/0", "/epoch/0/batch/1?generation=" + r.index.Generation(), "/epoch/0/batch/0?rank=99&world_size=100&batch_size=1",
		"/v1/datasets/photos/epochs/0/batches/0/manifest", "/v1/datasets/photos/sample?key=d0%2Fs00001",
		"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0-3", "/v1/datasets/photos/index",
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
