package gateway_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

func crcOf(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// want is the reference: it returns the stored bytes of the samples in the order of package
// shuffle, followed by the archive's end.
func (r *rig) want(params shuffle.Params, epoch, first, count uint64) []byte {
	r.t.Helper()
	plan, err := shuffle.NewPlan(params, r.index.First())
	if err != nil {
		r.t.Fatal(err)
	}
	var b bytes.Buffer
	e := plan.Epoch(epoch)
	for t := first; t < first+count; t++ {
		b.Write(r.samples[r.order[e.At(t%plan.Samples())]])
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

func TestBatchesAreTheStoredBytes(t *testing.T) {
	for _, size := range []int{1000, 40 << 10} { // many samples per call to the kernel, and few
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			r := newRig(t, 50, size, nil)
			params := shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 7}
			var seen []string
			for m := uint64(0); m < 4; m++ {
				a := r.do("GET", fmt.Sprintf("/epoch/3/batch/%d", m))
				count := min(16, 50-m*16)
				if got, want := a.body, r.want(params, 3, m*16, count); !bytes.Equal(got, want) {
					t.Fatalf("batch %d: got %d bytes that differ from the %d wanted", m, len(got), len(want))
				}
				if got, want := a.Header.Get("Millrace-Crc32c"), fmt.Sprintf("%08x", crcOf(a.body)); got != want {
					t.Errorf("batch %d: got checksum %s, want %s", m, got, want)
				}
				if got, want := a.Header.Get("Content-Length"), strconv.Itoa(len(a.body)); got != want {
					t.Errorf("batch %d: got Content-Length %s, want %s", m, got, want)
				}
				if got, want := a.Header.Get("Millrace-Samples"), strconv.FormatUint(count, 10); got != want {
					t.Errorf("batch %d: got %s samples, want %s", m, got, want)
				}
				seen = append(seen, names(t, a.body)...)
			}
			if got, want := len(seen), 50; got != want {
				t.Errorf("got %d samples in the epoch, want %d", got, want)
			}
			slices.Sort(seen)
			if got, want := len(slices.Compact(seen)), 50; got != want {
				t.Errorf("got %d different samples in the epoch, want %d", got, want)
			}
		})
	}
}

// names reads an archive with the standard library and returns the names of its samples.
func names(t *testing.T, body []byte) []string {
	t.Helper()
	var out []string
	for r := tar.NewReader(bytes.NewReader(body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutSuffix(h.Name, ".bin"); ok {
			out = append(out, name)
		}
	}
}

func TestRanksTileTheBatch(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	whole := names(t, r.do("GET", "/epoch/0/batch/1").body)
	for _, size := range []int{1, 2, 3, 8, 40} {
		var got []string
		for rank := range size {
			a := r.do("GET", fmt.Sprintf("/epoch/0/batch/1?rank=%d&world_size=%d", rank, size))
			if a.StatusCode != http.StatusOK {
				t.Fatalf("rank %d of %d: got status %d, want 200", rank, size, a.StatusCode)
			}
			share := names(t, a.body)
			if n := a.Header.Get("Millrace-Samples"); n != strconv.Itoa(len(share)) {
				t.Errorf("rank %d of %d: got Millrace-Samples %s, want %d", rank, size, n, len(share))
			}
			got = append(got, share...)
		}
		if !slices.Equal(got, whole) {
			t.Errorf("world size %d: got %v, want %v", size, got, whole)
		}
	}
}

func TestTails(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	params := shuffle.Params{Shuffle: shuffle.Full, Seed: 7}
	a := r.do("GET", "/epoch/1/batch/3?tail=pad&shuffle=full")
	if got, want := a.body, r.want(params, 1, 48, 16); !bytes.Equal(got, want) {
		t.Errorf("got %d padded bytes that differ from the %d wanted", len(got), len(want))
	}
	if got, want := a.Header.Get("Millrace-Padded"), "14"; got != want {
		t.Errorf("got %s padded, want %s", got, want)
	}
	b := r.do("GET", "/epoch/1/batch/3?tail=drop&shuffle=full")
	if got, want := b.StatusCode, http.StatusNotFound; got != want {
		t.Errorf("got status %d past a dropped tail, want %d", got, want)
	}
	// A padded batch may be larger than the dataset: it wraps more than once.
	c := r.do("GET", "/epoch/1/batch/0?tail=pad&shuffle=full&batch_size=120")
	if got, want := c.body, r.want(params, 1, 0, 120); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes of a batch of 120 that differ from the %d wanted", len(got), len(want))
	}
}

// TestIfMatchIsHeldTo: a client that requires a version with If-Match gets this version or an
// error, for a part and for the whole.
func TestIfMatchIsHeldTo(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for _, path := range []string{
		"/v1/datasets/photos/epochs/0/batches/1", "/v1/datasets/photos/epochs/0/batches/1/manifest",
		"/v1/datasets/photos/epochs/0/batches?count=2", "/v1/datasets/photos/epochs/0",
		"/v1/datasets/photos/epochs/0/wds/index.json", "/v1/datasets/photos/sample?key=d0%2Fs00001", "/v1/datasets/photos/index",
		"/v1/datasets/photos/epochs/0/samples?at=3,1", "/v1/datasets/photos/epochs/0/samples/manifest?at=3,1",
	} {
		etag := r.do("HEAD", path).Header.Get("ETag")
		reads := r.source.reads.Load()
		for _, match := range []string{`"stale"`, "W/" + etag, `"a", "b"`, "nonsense"} {
			for _, more := range []string{"", "Range: bytes=0-9", "If-None-Match: " + etag} {
				a := r.do("GET", path, append(splitHeader(more), "If-Match: "+match)...)
				checkProblem(t, a, http.StatusPreconditionFailed, "precondition_failed", false)
			}
		}
		if got := r.source.reads.Load(); got != reads {
			t.Errorf("%s: got %d reads for requests that were refused, want none", path, got-reads)
		}
		for _, match := range []string{etag, `"a", ` + etag, "*"} {
			if a := r.do("GET", path, "If-Match: "+match); a.StatusCode != http.StatusOK || a.Header.Get("ETag") != etag {
				t.Errorf("%s, If-Match %s: got status %d, ETag %s; want 200, %s", path, match, a.StatusCode, a.Header.Get("ETag"), etag)
			}
		}
		if a := r.do("GET", path, "If-Match: "+etag, "If-None-Match: "+etag); a.StatusCode != http.StatusNotModified {
			t.Errorf("%s: got status %d where both name the version, want 304", path, a.StatusCode)
		}
		if a := r.do("GET", path, "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT"); a.StatusCode != http.StatusOK || a.Header.Get("Last-Modified") != "" {
			t.Errorf("%s: got status %d, Last-Modified %q; want 200, for nothing here has a date", path, a.StatusCode, a.Header.Get("Last-Modified"))
		}
	}
	checkProblem(t, r.do("GET", "/epoch/0/batch/99", `If-Match: "stale"`), http.StatusNotFound, "end_of_epoch", false)
}

// TestHowLongAnswersMayBeKept: caches may store bytes of a pinned URL for ever, and descriptions
// for an hour, because a release may extend them. They must revalidate URLs that do not pin all
// data.
func TestHowLongAnswersMayBeKept(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	made := r.split("train=1,val=1", "")
	generation := "generation=" + r.index.Generation()
	const data, described, never = "public, max-age=31536000, immutable", "public, max-age=3600", "no-cache"
	epoch := "/v1/datasets/photos/epochs/0"
	for path, want := range map[string]string{
		epoch + "/batches/0?" + generation:                                       data,
		epoch + "/batches?count=1&" + generation:                                 data,
		"/v1/datasets/photos/sample?key=d0%2Fs00001&" + generation:               data,
		epoch + "/samples?at=3&" + generation:                                    data,
		epoch + "/samples?at=3":                                                  never,
		epoch + "/samples/manifest?at=3&" + generation:                           described,
		epoch + "?" + generation:                                                 described,
		epoch + "/batches/0/manifest?" + generation:                              described,
		epoch + "/wds/index.json?" + generation:                                  described,
		"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0&" + generation: described,
		epoch + "/batches/0?subset=train&" + generation:                          never,
		epoch + "/batches/0?subset=" + made.Digest + ":train&" + generation:      data,
		epoch + "?subset=train&" + generation:                                    never,
		epoch + "/batches/0?subset=" + made.Digest + ":train":                    never,
		epoch + "/batches/0/manifest":                                            never,
	} {
		a := r.do("GET", path)
		if got := a.Header.Get("Cache-Control"); a.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: got status %d, Cache-Control %q; want 200, %q", path, a.StatusCode, got, want)
		}
	}
}

func TestConditionalRequestsCostNoRead(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	path := "/v1/datasets/photos/epochs/0/batches/1"
	first := r.do("GET", path)
	etag := first.Header.Get("ETag")
	reads := r.source.reads.Load()
	for _, tag := range []string{etag, "W/" + etag, `"x", ` + etag, "*", `"a,b" , W/` + etag} {
		a := r.do("GET", path, "If-None-Match: "+tag)
		if a.StatusCode != http.StatusNotModified || len(a.body) != 0 || a.Header.Get("ETag") != etag {
			t.Errorf("If-None-Match %s: got status %d, want 304 with the ETag", tag, a.StatusCode)
		}
	}
	head := r.do("HEAD", path)
	for _, name := range []string{"Content-Length", "ETag", "Millrace-Crc32c", "Content-Location", "Link", "Content-Type"} {
		if got, want := head.Header.Get(name), first.Header.Get(name); got != want || got == "" {
			t.Errorf("HEAD: got %s %q, want %q", name, got, want)
		}
	}
	if got := r.source.reads.Load(); got != reads {
		t.Errorf("got %d reads after conditional requests, want %d", got, reads)
	}
	if a := r.do("GET", path, `If-None-Match: "other"`); a.StatusCode != http.StatusOK {
		t.Errorf("another ETag: got status %d, want 200", a.StatusCode)
	}
	canonical := r.do("GET", first.Header.Get("Content-Location"))
	if got := canonical.Header.Get("ETag"); got != etag || !bytes.Equal(canonical.body, first.body) {
		t.Errorf("canonical URL: got ETag %s, want %s and the same bytes", got, etag)
	}
	if got, want := canonical.Header.Get("Cache-Control"), "public, max-age=31536000, immutable"; got != want {
		t.Errorf("pinned: got Cache-Control %q, want %q", got, want)
	}
	if got, want := first.Header.Get("Cache-Control"), "no-cache"; got != want {
		t.Errorf("not pinned: got Cache-Control %q, want %q", got, want)
	}
	if got := r.do("GET", path+"?seed=8").Header.Get("ETag"); got == etag {
		t.Errorf("another seed: got the same ETag %s", got)
	}
}

// TestLinksLeadThroughTheEpoch follows the links to the next batch from batch 0 to the end, for
// bodies and for manifests.
func TestLinksLeadThroughTheEpoch(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for _, suffix := range []string{"", "/manifest"} {
		path := "/v1/datasets/photos/epochs/0/batches/0" + suffix + "?rank=1&world_size=2"
		for m := range 4 {
			a := r.do("HEAD", path)
			if got, want := a.Header.Get("Content-Location"), fmt.Sprintf("/epochs/0/batches/%d%s?", m, suffix); !strings.Contains(got, want) {
				t.Errorf("batch %d: got Content-Location %q, want %q in it", m, got, want)
			}
			next, isLink := strings.CutSuffix(a.Header.Get("Link"), `>; rel="next"`)
			if isLink != (m < 3) {
				t.Fatalf("batch %d of 4: got Link %q, want one for all but the last", m, a.Header.Get("Link"))
			}
			path = strings.TrimPrefix(next, "<")
		}
	}
}

func TestContentLocationOfASampleIsEscaped(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	key := r.order[oddSample]
	a := r.do("GET", "/v1/datasets/photos/sample?key="+url.QueryEscape(key))
	if want := append(slices.Clone(r.samples[key]), make([]byte, 1024)...); a.StatusCode != http.StatusOK || !bytes.Equal(a.body, want) {
		t.Fatalf("got status %d and %d bytes, want 200 and %d", a.StatusCode, len(a.body), len(want))
	}
	again := r.do("GET", a.Header.Get("Content-Location"))
	if !bytes.Equal(again.body, a.body) || again.Header.Get("ETag") != a.Header.Get("ETag") {
		t.Errorf("%s: got status %d and other bytes, want the same sample", a.Header.Get("Content-Location"), again.StatusCode)
	}
}

func TestRanges(t *testing.T) {
	for _, size := range []int{800, 40 << 10} {
		r := newRig(t, 20, size, nil)
		whole := r.do("GET", "/epoch/0/batch/0")
		n := len(whole.body)
		etag := whole.Header.Get("ETag")
		for _, c := range []struct {
			header string
			lo, hi int // -1: the whole body
		}{
			{"bytes=0-0", 0, 1},
			{"bytes=0-", 0, n},
			{fmt.Sprintf("bytes=%d-", n-1), n - 1, n},
			{"bytes=-1024", n - 1024, n},
			{fmt.Sprintf("bytes=%d-%d", n/3, 2*n/3), n / 3, 2*n/3 + 1},
			{fmt.Sprintf("bytes=%d-99999999999999999999999", n/2), n / 2, n},
			{"bytes=-99999999999999999999999", 0, n},
			{"bytes=0-1,5-6", -1, -1},
			{"bytes=5-4", -1, -1},
			{"bytes=+1-2", -1, -1},
			{"lines=1-2", -1, -1},
		} {
			a := r.do("GET", "/epoch/0/batch/0", "Range: "+c.header, "If-Range: "+etag)
			if c.lo < 0 {
				if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, whole.body) {
					t.Errorf("%s: got status %d and %d bytes, want 200 and the whole", c.header, a.StatusCode, len(a.body))
				}
				continue
			}
			wantRange := fmt.Sprintf("bytes %d-%d/%d", c.lo, c.hi-1, n)
			if a.StatusCode != http.StatusPartialContent || a.Header.Get("Content-Range") != wantRange || !bytes.Equal(a.body, whole.body[c.lo:c.hi]) {
				t.Errorf("%s: got status %d, range %q and %d bytes, want 206, %q and %d bytes",
					c.header, a.StatusCode, a.Header.Get("Content-Range"), len(a.body), wantRange, c.hi-c.lo)
			}
		}
		if a := r.do("GET", "/epoch/0/batch/0", "Range: bytes=1-2", `If-Range: "stale"`); a.StatusCode != http.StatusOK || len(a.body) != n {
			t.Errorf("stale If-Range: got status %d and %d bytes, want 200 and %d", a.StatusCode, len(a.body), n)
		}
		for _, header := range []string{"If-Range: W/" + etag, "If-Range: " + etag + ", " + etag, "If-Range: Sat, 01 Jan 2000 00:00:00 GMT"} {
			if a := r.do("GET", "/epoch/0/batch/0", "Range: bytes=1-2", header); a.StatusCode != http.StatusOK || len(a.body) != n {
				t.Errorf("%s: got status %d and %d bytes, want 200 and %d", header, a.StatusCode, len(a.body), n)
			}
		}
		if a := r.do("HEAD", "/epoch/0/batch/0", "Range: bytes=1-2"); a.StatusCode != http.StatusOK || a.ContentLength != int64(n) {
			t.Errorf("HEAD with a range: got status %d and length %d, want 200 and %d", a.StatusCode, a.ContentLength, n)
		}
		asked := r.source.asked.Load()
		r.do("GET", "/epoch/0/batch/0", "Range: bytes=600-700")
		if got := r.source.asked.Load() - asked; got != 1 {
			t.Errorf("a range inside one sample: got %d samples read, want 1", got)
		}
	}
}

func TestManifestPlanAndOccurrencesAgree(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	var manifest struct {
		Samples []struct {
			Position       uint64
			Key, Shard     string
			KeyBytes       []byte `json:"key_base64"`
			Offset, Length int64
			CRC32C         string
		}
	}
	r.json("/v1/datasets/photos/epochs/2/batches/0/manifest?tail=pad&batch_size=60", &manifest)
	body := r.do("GET", "/epoch/2/batch/0?tail=pad&batch_size=60").body
	for i, s := range manifest.Samples {
		if len(s.KeyBytes) > 0 { // a key that JSON cannot represent as text
			s.Key = string(s.KeyBytes)
		}
		if !slices.Contains(r.order, s.Key) {
			t.Errorf("sample %d: got key %q, want one of the dataset", i, s.Key)
		}
		stored := body[:s.Length]
		body = body[s.Length:]
		if got, want := fmt.Sprintf("%08x", crcOf(stored)), s.CRC32C; got != want {
			t.Errorf("sample %d: got checksum %s, want %s", i, got, want)
		}
		shard := make([]byte, s.Length)
		ref := refOf(r, s.Shard)
		if err := r.store.ReadRange(t.Context(), ref, s.Offset, shard); err != nil || !bytes.Equal(shard, stored) {
			t.Errorf("sample %d: shard %s at %d does not hold it (%v)", i, s.Shard, s.Offset, err)
		}
		var found struct {
			Occurrences []struct{ Epoch, Batch, Position uint64 }
		}
		r.json("/v1/datasets/photos/occurrences?epochs=0-9&tail=pad&batch_size=60&key="+url.QueryEscape(s.Key), &found)
		ok := false
		for _, o := range found.Occurrences {
			ok = ok || o.Epoch == 2 && o.Batch == 0 && o.Position == s.Position
		}
		if !ok || len(found.Occurrences) < 10 {
			t.Errorf("sample %d: got occurrences %v, want epoch 2, batch 0, position %d among them", i, found.Occurrences, s.Position)
		}
	}
	if got, want := len(manifest.Samples), 60; got != want {
		t.Errorf("got %d samples in the manifest, want %d", got, want)
	}
	var epoch struct {
		Batches, Samples uint64
		Links            struct{ Batch string }
		Parameters       struct{ Seed string }
	}
	r.json("/v1/datasets/photos/epochs/2?batch_size=20", &epoch)
	if plain := r.do("GET", "/v1/datasets/photos/epochs/2?batch_size=20").body; !bytes.Contains(plain, []byte(epoch.Links.Batch)) {
		t.Errorf("got %s, want the link %s as it is typed", plain, epoch.Links.Batch)
	}
	if epoch.Batches != 3 || epoch.Samples != 50 || epoch.Parameters.Seed != "7" {
		t.Errorf("got plan %+v, want 3 batches of 50 samples with seed 7", epoch)
	}
	if got, want := len(names(t, r.do("GET", epoch.Links.Batch).body)), 20; got != want {
		t.Errorf("got %d samples behind the plan's link, want %d", got, want)
	}
}

// TestManifestNamesEverySample checks that a manifest has every sample, whether it is short or
// long, and however often padding repeats a sample.
func TestManifestNamesEverySample(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 7}, r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	order := plan.Epoch(1)
	for _, size := range []uint64{1, 60, 2500} {
		path := fmt.Sprintf("/v1/datasets/photos/epochs/1/batches/0/manifest?tail=pad&batch_size=%d", size)
		var m struct {
			Samples []struct {
				Position uint64
				Key      string
				KeyBytes []byte `json:"key_base64"`
			}
		}
		r.json(path, &m)
		if got := uint64(len(m.Samples)); got != size {
			t.Fatalf("got %d samples, want %d", got, size)
		}
		for i, s := range m.Samples {
			if len(s.KeyBytes) > 0 {
				s.Key = string(s.KeyBytes)
			}
			if want := r.order[order.At(uint64(i)%50)]; s.Key != want || s.Position != uint64(i) {
				t.Fatalf("sample %d of %d: got %q at %d, want %q", i, size, s.Key, s.Position, want)
			}
		}
		head, whole := r.do("HEAD", path), r.do("GET", path)
		if got, want := head.ContentLength, int64(len(whole.body)); got != want {
			t.Errorf("%d samples: got Content-Length %d, want %d", size, got, want)
		}
	}
}

func (r *rig) json(path string, into any) {
	r.t.Helper()
	a := r.do("GET", path)
	if a.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s: got status %d, want 200: %s", path, a.StatusCode, a.body)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		r.t.Fatalf("GET %s: %v", path, err)
	}
}

func TestSampleByKey(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	key := r.order[17]
	a := r.do("GET", "/v1/datasets/photos/sample?key="+key)
	if got, want := a.body, append(slices.Clone(r.samples[key]), make([]byte, 1024)...); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes that differ from the %d wanted", len(got), len(want))
	}
	b := r.do("GET", "/v1/datasets/photos/sample?key="+key, "Range: bytes=512-611")
	if b.StatusCode != http.StatusPartialContent || !bytes.Equal(b.body, a.body[512:612]) {
		t.Errorf("got status %d and %d bytes, want 206 and 100 bytes", b.StatusCode, len(b.body))
	}
	if c := r.do("GET", "/v1/datasets/photos/sample?key="+key, "If-None-Match: "+a.Header.Get("ETag")); c.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d, want 304", c.StatusCode)
	}
}

func TestIndexIsServedAsItIsStored(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	want := make([]byte, r.index.Size())
	if _, err := r.index.ReadAt(want, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	a := r.do("GET", "/v1/datasets/photos/index")
	if !bytes.Equal(a.body, want) || len(want) == 0 {
		t.Errorf("got %d bytes that differ from the %d wanted", len(a.body), len(want))
	}
	if b := r.do("GET", "/v1/datasets/photos/index", "If-None-Match: "+a.Header.Get("ETag")); b.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d, want 304", b.StatusCode)
	}
	if b := r.do("GET", "/v1/datasets/photos/index", "Range: bytes=3-9"); b.StatusCode != http.StatusPartialContent || !bytes.Equal(b.body, want[3:10]) {
		t.Errorf("got status %d and %d bytes, want 206 and 7", b.StatusCode, len(b.body))
	}
	if b := r.do("GET", "/v1/datasets/photos/index", "Range: bytes=0-1,4-5"); b.StatusCode != http.StatusOK || !bytes.Equal(b.body, want) {
		t.Errorf("two ranges: got status %d and %d bytes, want 200 and the whole", b.StatusCode, len(b.body))
	}
	if b := r.do("HEAD", "/v1/datasets/photos/index"); b.Header.Get("Content-Length") != strconv.Itoa(len(want)) {
		t.Errorf("HEAD: got Content-Length %s, want %d", b.Header.Get("Content-Length"), len(want))
	}
	b := r.do("GET", "/v1/datasets/photos/index", "Range: bytes=99999999-")
	checkProblem(t, b, http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", false)
	if got, want := b.Header.Get("Content-Range"), fmt.Sprintf("bytes */%d", len(want)); got != want {
		t.Errorf("got Content-Range %q, want %q", got, want)
	}
}
