package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestConditionalAndRangeRequests checks HTTP's guarantees for a batch (RFC 9110, sections 13 and
// 14). {E} stands for its ETag.
func TestConditionalAndRangeRequests(t *testing.T) {
	_, g, _ := served(t)
	short := "/epoch/0/batch/1"
	full := g.MustGet(t, short)
	etag := full.Header.Get("ETag")
	if !strings.HasPrefix(etag, `"`) || full.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("short path: got ETag %q, Cache-Control %q, want a strong ETag and no-cache", etag, full.Header.Get("Cache-Control"))
	}
	place, err := url.Parse(full.Header.Get("Content-Location"))
	if err != nil || place.Query().Get("generation") == "" {
		t.Fatalf("Content-Location: got %q, want a canonical URL with its generation", full.Header.Get("Content-Location"))
	}
	canonical := g.MustGet(t, place.RequestURI())
	if !bytes.Equal(canonical.Body, full.Body) || canonical.Header.Get("ETag") != etag {
		t.Error("canonical URL: got another body or ETag than the short one")
	}
	if got := canonical.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("canonical URL: Cache-Control: got %q", got)
	}
	n := len(full.Body)
	whole, none := [2]int{0, n}, [2]int{}
	const long = "99999999999999999999999"
	for _, c := range []struct {
		header string // several headers are separated by bars
		status int
		part   [2]int
		rule   string
	}{
		{"If-None-Match: {E}", 304, none, "13.1.2"},
		{"If-None-Match: W/{E}", 304, none, "13.1.2: compares weakly"},
		{`If-None-Match: "other"`, 200, whole, "13.1.2"},
		{`If-None-Match: "a,b" , "other",,W/{E}`, 304, none, "13.1.2, 5.6.1: a list, with empty elements"},
		{"If-None-Match: *", 304, none, "13.1.2"},
		{"If-None-Match: *x", 200, whole, "13.1.2: neither * nor an ETag"},
		{`If-None-Match: "other", *`, 200, whole, "13.1.2: * stands alone"},
		{"If-None-Match: unquoted", 200, whole, "8.8.3"},
		{"If-Match: {E}", 200, whole, "13.1.1"},
		{"If-Match: *", 200, whole, "13.1.1"},
		{"If-Match: W/{E}", 412, none, "13.1.1: compares strongly"},
		{`If-Match: "other"`, 412, none, "13.1.1"},
		{"If-Match: unquoted", 412, none, "8.8.3"},
		{`If-Match: "other", *`, 412, none, "13.1.1: * stands alone"},
		{"If-Match: {E}|If-None-Match: {E}", 304, none, "13.2.2: If-Match first, then If-None-Match"},
		{`If-Match: "other"|If-None-Match: {E}`, 412, none, "13.2.2"},
		{"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", 200, whole, "13.1.3: ignored without a date"},
		{"If-None-Match: {E}|If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 304, none, "13.1.3: ignored beside If-None-Match"},
		{"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200, whole, "13.1.4: ignored without a date"},
		{"If-Match: {E}|If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200, whole, "13.1.4: ignored beside If-Match"},

		{"Range: bytes=100-299", 206, [2]int{100, 300}, "14.1.2"},
		{"Range: Bytes=100-299", 206, [2]int{100, 300}, "14.1: units in any case"},
		{"Range: bytes=700-", 206, [2]int{700, n}, "14.1.2"},
		{"Range: bytes=0-" + long, 206, whole, "14.1.2: what is there of it"},
		{"Range: bytes=-1024", 206, [2]int{n - 1024, n}, "14.1.2"},
		{"Range: bytes=-" + long, 206, whole, "14.1.2: the whole"},
		{"Range: bytes=-0", 416, none, "14.1.2: unsatisfiable"},
		{"Range: bytes=999999999-", 416, none, "14.1.2"},
		{"Range: bytes=" + long + "-", 416, none, "14.1.2"},
		{"Range: bytes=5-4", 200, whole, "14.1.1: invalid, and ignored"},
		{"Range: bytes=-", 200, whole, "14.1.1"},
		{"Range: bytes=", 200, whole, "14.1.1"},
		{"Range: bytes=a-b", 200, whole, "14.1.1"},
		{"Range: bytes=+1-2", 200, whole, "14.1.1"},
		{"Range: bytes 0-1", 200, whole, "14.1.1"},
		{"Range: lines=0-1", 200, whole, "14.2: another unit is ignored"},
		{"Range: bytes=0-0,2-3", 200, whole, "14.2: several may be ignored"},
		{"Range: bytes=0-9,5-14", 200, whole, "17.15: overlapping ones"},
		{"Range: bytes=" + strings.Repeat("0-,", 5000) + "0-", 200, whole, "17.15: very many"},

		{"Range: bytes=700-|If-Range: {E}", 206, [2]int{700, n}, "13.1.5"},
		{`Range: bytes=700-|If-Range: "other"`, 200, whole, "13.1.5"},
		{"Range: bytes=700-|If-Range: W/{E}", 200, whole, "13.1.5: compares strongly"},
		{"Range: bytes=700-|If-Range: Fri, 01 Jan 2100 00:00:00 GMT", 200, whole, "13.1.5: a date is no match without one"},
		{"Range: bytes=999999999-|If-Range: {E}", 416, none, "14.2"},
		{`Range: bytes=999999999-|If-Range: "other"`, 200, whole, "14.2: the range is ignored first"},
		{"If-Range: {E}", 200, whole, "13.1.5: ignored without a range"},
		{"Range: bytes=0-9|If-Match: {E}", 206, [2]int{0, 10}, "13.2.2"},
		{`Range: bytes=0-9|If-Match: "other"`, 412, none, "13.2.2"},
		{"Range: bytes=0-9|If-None-Match: {E}", 304, none, "13.2.2: before the range"},
		{"Range: bytes=999999999-|If-None-Match: {E}", 304, none, "13.2.2"},
		{`Range: bytes=0-9|If-None-Match: "other"|If-Range: {E}`, 206, [2]int{0, 10}, "13.2.2: all three hold"},
	} {
		var header []string
		for line := range strings.SplitSeq(strings.ReplaceAll(c.header, "{E}", etag), "|") {
			name, value, _ := strings.Cut(line, ": ")
			header = append(header, name, value)
		}
		got := g.Get(t, short, header...)
		if got.Status != c.status || c.status < 400 && !bytes.Equal(got.Body, full.Body[c.part[0]:c.part[1]]) {
			t.Errorf("%.100s: got %d and %d bytes, want %d and bytes %v (%s)", c.header, got.Status, len(got.Body), c.status, c.part, c.rule)
		}
		checkFields(t, c.header, full, got, c.part)
	}
	head, err := harness.Do(t.Context(), http.MethodHead, g.URL+short, "Range", "bytes=0-9")
	if err != nil || head.Status != http.StatusOK || len(head.Body) != 0 ||
		head.Header.Get("ETag") != etag || head.Header.Get("Content-Length") != full.Header.Get("Content-Length") {
		t.Errorf("HEAD with a range: got %d, %v, %v, want the headers of GET", head.Status, head.Header, err)
	}
	past := g.Get(t, "/epoch/0/batch/999999", "If-Match", `"other"`)
	if past.Status != http.StatusNotFound {
		t.Errorf("If-Match of nothing: got %d, want 404: preconditions are for what would be a success (13.2.1)", past.Status)
	}
}

// checkFields compares a response's headers with those that RFC 9110 requires for its status, and
// with those of the full response.
func checkFields(t *testing.T, name string, whole, got harness.Response, part [2]int) {
	t.Helper()
	want := map[string]string{}
	switch got.Status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified: // 15.3.7, 15.4.5
		for _, field := range []string{"ETag", "Cache-Control", "Content-Location", "Vary"} {
			want[field] = whole.Header.Get(field)
		}
	}
	switch got.Status {
	case http.StatusPartialContent:
		want["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", part[0], part[1]-1, len(whole.Body))
	case http.StatusRequestedRangeNotSatisfiable:
		want["Content-Range"] = fmt.Sprintf("bytes */%d", len(whole.Body))
	case http.StatusNotModified:
		want["Content-Type"] = ""
	}
	if got.Header.Get("Date") == "" {
		t.Errorf("%.100s: got no Date, want one", name)
	}
	for field, value := range want {
		if have := got.Header.Get(field); have != value {
			t.Errorf("%.100s: got %s %q with a %d, want %q", name, field, have, got.Status, value)
		}
	}
}
