package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryFormIsOneBody checks every form of every format: length and checksum in the headers,
// HEAD, 304, ranges, and the canonical address, which returns the same bytes.
func TestEveryFormIsOneBody(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, w := range formatsWritten(t) {
		t.Run(name, func(t *testing.T) {
			r := serveObjects(t, w.objects, nil)
			paths := []string{
				formBatch + "1?rank=1&world_size=3", formBatch + "0?format=tar&fields=" + w.samples[0].parts[0].ext,
				formBatch + "0?rank=99&world_size=100&format=multipart", "/v1/datasets/photos/sample?format=framed&table=parts&key=" + url.QueryEscape(w.samples[5].key),
				"/v1/datasets/photos/epochs/3/batches?from=1&count=2", "/v1/datasets/photos/epochs/3/batches?count=9&format=arrow&rank=1&world_size=2&tail=pad",
				"/v1/datasets/photos/epochs/1/mds/index.json", "/v1/datasets/photos/epochs/1/mds/seed=3/shard.00002.mds", "/v1/datasets/photos/epochs/1/wds/000001.tar",
			}
			for _, form := range formsShown(r) {
				paths = append(paths, formBatch+"2?format="+form.Name)
			}
			paths = append(paths, formBatch+"2?format=framed&table=keys,parts")
			if w.folders {
				paths = append(paths, formBatch+"2?format=framed&fields=cls", formBatch+"2?format=arrow&fields=cls,jpg", "/v1/datasets/photos/epochs/3/batches?count=3&format=framed&fields=cls&table=parts")
			}
			etags := map[string]string{}
			for _, path := range paths {
				etag := holdsToHeaders(t, r, path, random)
				if other := etags[etag]; other != "" {
					t.Errorf("%s: got the ETag of %s", path, other)
				}
				etags[etag] = path
			}
		})
	}
}

type formShown struct {
	Name        string
	ContentType string `json:"content_type"`
	Fields      bool
}

// formsShown returns the forms in the description of a dataset.
func formsShown(r *rig) []formShown {
	r.t.Helper()
	var info struct {
		Format      string
		ContentType string `json:"content_type"`
		Forms       []formShown
	}
	if err := json.Unmarshal(r.do("GET", "/v1/datasets/photos").body, &info); err != nil || len(info.Forms) < 5 {
		r.t.Fatalf("got %+v and %v, want the dataset's forms", info, err)
	}
	return info.Forms
}

func holdsToHeaders(t *testing.T, r *rig, path string, random *rand.Rand) (etag string) {
	t.Helper()
	a := r.do("GET", path)
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%s: got status %d: %s", path, a.StatusCode, a.body)
	}
	etag = a.Header.Get("ETag")
	if got, want := a.Header.Get("Content-Length"), strconv.Itoa(len(a.body)); got != want {
		t.Errorf("%s: got Content-Length %s, want %s", path, got, want)
	}
	if got, want := a.Header.Get("Millrace-Crc32c"), fmt.Sprintf("%08x", crcOf(a.body)); got != want && got != "" {
		t.Errorf("%s: got checksum %s, want %s", path, got, want)
	}
	head := r.do("HEAD", path)
	for _, h := range []http.Header{a.Header, head.Header} {
		for _, name := range []string{"Date", "X-Request-Id", "Server-Timing"} {
			h.Del(name)
		}
	}
	if diff := cmp.Diff(a.Header, head.Header); diff != "" || len(head.body) != 0 {
		t.Errorf("%s: HEAD differs from GET:\n%s", path, diff)
	}
	if b := r.do("GET", path, "If-None-Match: "+etag); b.StatusCode != http.StatusNotModified || b.Header.Get("ETag") != etag {
		t.Errorf("%s: got status %d for its own ETag, want 304", path, b.StatusCode)
	}
	if at := a.Header.Get("Content-Location"); at != "" {
		if b := r.do("GET", at, "Accept: */*;q=0.1"); b.Header.Get("ETag") != etag || !bytes.Equal(b.body, a.body) {
			t.Errorf("%s: got ETag %s and %d bytes at its canonical address %s, want the same", path, b.Header.Get("ETag"), len(b.body), at)
		}
	}
	for range 12 {
		if len(a.body) == 0 {
			break
		}
		from := random.IntN(len(a.body))
		to := from + random.IntN(len(a.body)-from)
		b := r.do("GET", path, fmt.Sprintf("Range: bytes=%d-%d", from, to), "If-Range: "+etag)
		if b.StatusCode != http.StatusPartialContent || !bytes.Equal(b.body, a.body[from:to+1]) {
			t.Errorf("%s: bytes %d to %d of %d: got status %d and %d other bytes", path, from, to, len(a.body), b.StatusCode, len(b.body))
		}
	}
	if b := r.do("GET", path, "Range: bytes=0-0", `If-Range: "other"`); b.StatusCode != http.StatusOK || !bytes.Equal(b.body, a.body) {
		t.Errorf("%s: got status %d and %d bytes for another's If-Range, want all", path, b.StatusCode, len(b.body))
	}
	return etag
}

// TestNativeFormsAreUnchanged: a form equal to the dataset's own form returns the same bytes.
func TestNativeFormsAreUnchanged(t *testing.T) {
	all := formatsWritten(t)
	tars := serveObjects(t, all["tar"].objects, nil)
	plain, named := tars.do("GET", formBatch+"1"), tars.do("GET", formBatch+"1?format=tar")
	if !bytes.Equal(plain.body, named.body) || plain.Header.Get("ETag") != named.Header.Get("ETag") {
		t.Error("format=tar of tars: got other bytes or another ETag than without")
	}
	if got := tars.do("GET", formBatch+"1?format=tar&fields=jpg,cls").Header.Get("ETag"); got == plain.Header.Get("ETag") {
		t.Error("fields: got the ETag of whole samples")
	}
	lines := serveObjects(t, all["jsonl"].objects, nil)
	a, b := lines.do("GET", formBatch+"1"), lines.do("GET", formBatch+"1?format=ndjson")
	if !bytes.Equal(a.body, b.body) || b.Header.Get("Content-Type") != "application/x-ndjson" || bytes.Count(a.body, []byte("\n")) != 16 {
		t.Errorf("ndjson: got %d bytes as %s, want the %d of jsonl", len(b.body), b.Header.Get("Content-Type"), len(a.body))
	}
	arrays := serveObjects(t, all["records"].objects, nil)
	flat, npy := arrays.do("GET", formBatch+"1").body, arrays.do("GET", formBatch+"1?format=npy").body
	if head, ok := bytes.CutSuffix(npy, flat); !ok || !strings.Contains(string(head), "'shape': (16, 3, 5)") || len(head)%64 != 0 {
		t.Errorf("npy: got header %q", head)
	}
}

func TestAcceptChoosesTheForm(t *testing.T) {
	r := serveObjects(t, writeTars(t).objects, nil)
	for accept, want := range map[string]string{
		"":            "application/x-tar",
		"*/*":         "application/x-tar",
		"multipart/*": "multipart/mixed",
		"application/x-tar;q=0.3, multipart/mixed;q=0.4": "multipart/mixed",
		"application/vnd.apache.arrow.stream, */*;q=0.5": "application/vnd.apache.arrow.stream",
		"application/*;q=0, */*":                         "multipart/mixed",
		"APPLICATION/VND.MILLRACE.FRAMED":                "application/vnd.millrace.framed",
		"text/html;q=0.9, application/*;q=0.01":          "application/x-tar",
		"application/x-tar;q=x":                          "application/x-tar",
	} {
		a := r.do("GET", formBatch+"0", "Accept: "+accept)
		got, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
		if a.StatusCode != http.StatusOK || got != want || a.Header.Get("Vary") != "Accept" {
			t.Errorf("Accept %s: got status %d and %s, want %s", accept, a.StatusCode, got, want)
		}
	}
	a := r.do("GET", formBatch+"0", "Accept: image/png")
	p := checkProblem(t, a, http.StatusNotAcceptable, "not_acceptable", false)
	for _, f := range formsShown(r) {
		if !strings.Contains(p.Detail, f.ContentType) {
			t.Errorf("got %q, want that it names %s", p.Detail, f.ContentType)
		}
	}
	if a := r.do("GET", formBatch+"0?format=tar", "Accept: image/png"); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d for a form that the URL names, want 200 whatever Accept says", a.StatusCode)
	}
}

func TestFieldsAreHeldToTheSamples(t *testing.T) {
	r := serveObjects(t, writeTars(t).objects, nil)
	for query, reason := range map[string]string{
		"fields=png":                     "no sample has a part png",
		"fields=jpg,jpg":                 "more than once",
		"fields=jpg,":                    "empty name",
		"fields=%zz":                     "invalid URL escape",
		"fields=jpg&format=framed2":      "must be one of tar, multipart",
		"fields=a,b":                     "no sample has a part a; fields: no sample has a part b",
		"table=keys":                     "table: has no meaning for format tar",
		"format=framed&table=keys,keys":  "each once",
		"format=framed&table=everything": "must be keys, parts",
		"fields=" + strings.Repeat("a,", 256) + "b": "more than 256 names",
	} {
		p := checkProblem(t, r.do("GET", formBatch+"0?"+query), http.StatusBadRequest, "invalid_argument", false)
		if !strings.Contains(p.Detail, reason) {
			t.Errorf("%s: got %q, want %q", query, p.Detail, reason)
		}
	}
	if a := r.do("GET", formBatch+"0?fields=jpg%2Ccls"); a.StatusCode != http.StatusOK {
		t.Errorf("an escaped comma: got status %d: %s", a.StatusCode, a.body)
	}
	arrays := serveObjects(t, writeArray().objects, nil)
	p := checkProblem(t, arrays.do("GET", formBatch+"0?fields=bin&format=npy"), http.StatusBadRequest, "invalid_argument", false)
	if !strings.Contains(p.Detail, "fields: has no meaning for format npy") {
		t.Errorf("got %q", p.Detail)
	}
	if a := arrays.do("GET", formBatch+"0?fields=bin"); a.Header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("fields without a format: got %s, want the first form that can leave parts out", a.Header.Get("Content-Type"))
	}
}

// FuzzViews requests batches in generated forms. Each response is a batch, or a problem that the
// caller caused.
func FuzzViews(f *testing.F) {
	w := formatsWritten(f)
	rigs := []*rig{serveObjects(f, w["tar"].objects, nil), serveObjects(f, w["jsonl"].objects, nil)}
	for _, s := range []string{
		"format=tar&fields=jpg,cls", "format=framed&table=keys,parts", "fields=a%2Cb&format=arrow", "table=parts", "fields=,", "format=mds&fields=%5f_key__",
		"fields=json&format=multipart", "format=", "fields=%00", "count=3&from=1", "fields=jpg&format=framed&table=parts",
	} {
		f.Add(s, "application/*;q=0.5, multipart/mixed", true)
		f.Add(s, "", false)
	}
	f.Fuzz(func(t *testing.T, query, accept string, many bool) {
		target := &url.URL{Path: formBatch + "1", RawQuery: query}
		if many {
			target.Path = strings.TrimSuffix(formBatch, "/")
		}
		for _, r := range rigs {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			req.URL, req.RequestURI = target, ""
			req.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			r.gateway.Handler().ServeHTTP(w, req)
			switch w.Code {
			case http.StatusOK:
				if got := w.Header().Get("Millrace-Crc32c"); got != fmt.Sprintf("%08x", crcOf(w.Body.Bytes())) {
					t.Errorf("%q: got checksum %s of other bytes", query, got)
				}
			case http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable:
				if w.Header().Get("Content-Type") != "application/problem+json" {
					t.Errorf("%q: got status %d and %s", query, w.Code, w.Header().Get("Content-Type"))
				}
			default:
				t.Errorf("%q, Accept %q: got status %d: %s", query, accept, w.Code, w.Body)
			}
		}
	})
}
