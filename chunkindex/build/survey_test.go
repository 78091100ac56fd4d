package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestRun_RejectsSeveralFormats checks that the error names the choices if two formats claim
// objects, and that unclaimed objects are counted.
func TestRun_RejectsSeveralFormats(t *testing.T) {
	store, _ := indexedTars(t)
	store.Delete(t.Context(), layout.PointerKey)
	store.Set("notes.txt", []byte("notes"))
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil || rep.Format != "tar" || rep.Ignored != 1 || rep.Shards != 2 {
		t.Fatalf("notes: got %+v, %v", rep, err)
	}
	store.Set("more.jsonl", []byte(`{"a":1}`+"\n"))
	if _, err = Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), "2 tar (*.tar), 1 jsonl (*.jsonl): choose one kind with --match") {
		t.Errorf("lines too: got %v, want a refusal with counts", err)
	}
	if _, err = Run(t.Context(), store, "", Options{Format: "tar"}); err == nil || !strings.Contains(err.Error(), "object more.jsonl does not begin like a tar archive: restore it if it is damaged, or exclude it with --match") {
		t.Errorf("tar named: got %v, want the object that is no tar", err)
	}
	if rep, err = Run(t.Context(), store, "", Options{Format: "tar", Match: "*.tar"}); err != nil || rep.Ignored != 0 {
		t.Errorf("tars alone: got %+v, %v", rep, err)
	}
	if rep, err = Run(t.Context(), store, "", Options{Match: "*.jsonl"}); err != nil || rep.Format != "jsonl" || rep.Ignored != 0 {
		t.Errorf("lines alone: got %+v, %v", rep, err)
	}
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{Format: "xyz"}, `format "xyz" is unknown: use one of mds, litdata, tar`},
		{Options{Format: "tokens"}, "tokens"},
		{Options{Format: "tar", Match: "*.tar", Hints: format.Options{RecordSize: 5}}, "--record-size does not apply to tar shards"},
		{Options{Format: "tar", Match: "*.tar", Hints: format.Options{SequenceLength: 5}}, "--sequence-length does not apply to tar shards"},
		{Options{Format: "tar", Match: "*.tar", Hints: format.Options{DType: "<u2"}}, "it is for tokens and records"},
	} {
		if _, err := Run(t.Context(), store, "", c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.opt, err, c.want)
		}
	}
}

// TestFormats checks that every format has a unique name and describes its shards, and that formats
// marked Last are at the end.
func TestFormats(t *testing.T) {
	names, last := map[string]bool{}, false
	for i, f := range formats() {
		_, unknown := framing.Read(f.Name, nil)
		if f.Name == "" || names[f.Name] || f.Shards == "" || f.Survey == nil || errors.Is(unknown, framing.ErrUnknown) || f.Changes < 0 || last && !f.Last {
			t.Errorf("got %+v", f)
		}
		names[f.Name], last = true, f.Last
		if want := f.Name + " (" + f.Shards + ")"; lookedFor("")[i] != want || len(lookedFor(f.Name)) != 1 || lookedFor(f.Name)[0] != want {
			t.Errorf("got %q of %q, want %q", lookedFor(f.Name), lookedFor(""), want)
		}
	}
}

// TestRun_TarByContent checks that an object without a tar suffix is identified by its header if
// the user names the format tar.
func TestRun_TarByContent(t *testing.T) {
	store, want := indexedTars(t)
	other := memstore.New()
	for _, s := range []struct{ from, to string }{{"a.tar", "first"}, {"b.tar", "second.bin.gz"}} {
		b, _ := store.Bytes(s.from)
		if strings.HasSuffix(s.to, ".gz") {
			b = codectest.PackAt(codec.Gzip, b)
		}
		other.Set(s.to, b)
	}
	other.Set("readme", []byte("no tar"))
	rep, err := Run(t.Context(), other, "", Options{Format: "tar"})
	if err != nil || rep.Samples != want.Samples || rep.Ignored != 1 {
		t.Errorf("got %+v, %v, want %d samples", rep, err, want.Samples)
	}
	other.Set("named.tar", make([]byte, 1024))
	if rep, err := Run(t.Context(), other, "", Options{Format: "tar"}); err != nil || rep.Shards != 3 || rep.Ignored != 1 {
		t.Errorf("got %+v, %v, want all three", rep, err)
	}
	if rep, err := Run(t.Context(), other, "", Options{}); err == nil {
		t.Errorf("not named: got %+v, want no shards without samples", rep)
	}
	other.Set("damaged", make([]byte, 511))
	if rep, err := Run(t.Context(), other, "", Options{Format: "tar"}); err == nil || !strings.Contains(err.Error(), "object damaged does not begin like a tar") {
		t.Errorf("got %+v, %v, want the damaged one by name", rep, err)
	}
}

// TestListing_Decodes checks that formats receive decoded bytes, and only the number of bytes that
// they request.
func TestListing_Decodes(t *testing.T) {
	store := memstore.New()
	body := bytes.Repeat([]byte("0123456789"), 1000)
	store.Set("p/a.txt.gz", codectest.PackAt(codec.Gzip, body, 3000))
	store.Set("p/b.txt.zst", codectest.PackAt(codec.Zstd, body))
	store.Set("p/c.txt", body)
	store.Set("p/d.gz", body)
	l := newListing(store, "p/", listed(t, store, "p/"))
	for _, key := range []string{"a.txt.gz", "b.txt.zst", "c.txt"} {
		if head, err := format.Head(t.Context(), l, key); err != nil || !bytes.Equal(head, body[:format.HeadSize]) {
			t.Errorf("head of %s: got %d bytes, %v", key, len(head), err)
		}
		if all, err := format.Read(t.Context(), l, key, int64(len(body))); err != nil || !bytes.Equal(all, body) {
			t.Errorf("%s: got %d bytes, %v", key, len(all), err)
		}
		if _, err := format.Read(t.Context(), l, key, int64(len(body))-1); err == nil || !strings.Contains(err.Error(), "longer than 9999") {
			t.Errorf("%s, one byte less: got %v", key, err)
		}
	}
	if _, err := format.Head(t.Context(), l, "d.gz"); err == nil || !strings.Contains(err.Error(), "is not gzip") {
		t.Errorf("no gzip: got %v", err)
	}
}

func listed(t *testing.T, store objstore.Store, prefix string) (objects []objstore.Object) {
	t.Helper()
	if err := store.List(t.Context(), prefix, func(o objstore.Object) error { objects = append(objects, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestSurvey_ReadsOnceConcurrently checks that a survey reads each object at most once, for any
// number of formats. It must read several concurrently if all must be inspected.
func TestSurvey_ReadsOnceConcurrently(t *testing.T) {
	npy := "\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }"
	npy += strings.Repeat(" ", 127-len(npy)) + "\n" + "01234567"
	lines := `{"a":1}` + "\n" + `{"a":2}` + "\n"
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).WriteHeader(&tar.Header{Name: "a", Format: tar.FormatUSTAR}); err != nil {
		t.Fatal(err)
	}
	member := archive.Bytes()
	for name, c := range map[string]struct {
		key, body string
		index     bool // an unrelated index.json is present
		opt       Options
		requests  int
		least     int // concurrent requests
	}{
		"lines by content":     {"x%02d.json", lines, false, Options{}, 60, 16},
		"tars by content":      {"x%02d", string(member), true, Options{Format: "tar"}, 60, 16},
		"arrays of tokens":     {"x%02d.npy", npy, true, Options{Hints: format.Options{SequenceLength: 1}}, 61, 16},
		"looked at in vain":    {"x%02d.json", "{}", false, Options{}, 16, 4}, // four objects are inspected as JSON Lines, and the largest ones as collections
		"index that says none": {"x%02d.json", lines, true, Options{}, 61, 16},
	} {
		bubble.Test(t, func(t *testing.T) {
			mem := memstore.New()
			for i := range 60 {
				mem.Set(fmt.Sprintf(c.key, i), []byte(c.body))
			}
			if c.index {
				mem.Set("index.json", []byte(`{"nobody":"knows it"}`))
			}
			store := &slow{Store: mem, asked: map[string]int{}}
			b, err := newBuilder(store, "", c.opt)
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			if err := b.list(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			total := 0
			for key, n := range store.asked {
				if total += n; n > 1 {
					t.Errorf("%s: got %s asked for %d times", name, key, n)
				}
			}
			if total != c.requests || store.peak < c.least || store.peak > 64 {
				t.Errorf("%s: got %d requests, up to %d concurrent, want %d, %d to 64 concurrent", name, total, store.peak, c.requests, c.least)
			}
		})
	}
}

// slow is a store in which each read takes one second. It counts reads.
type slow struct {
	objstore.Store
	mu        sync.Mutex
	asked     map[string]int
	now, peak int
}

func (s *slow) wait(key string) {
	s.mu.Lock()
	s.asked[key]++
	s.now++
	s.peak = max(s.peak, s.now)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
}

func (s *slow) Open(ctx context.Context, ref objstore.Ref, offset int64) (io.ReadCloser, error) {
	s.wait(ref.Key)
	return s.Store.Open(ctx, ref, offset)
}

func (s *slow) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	s.wait(ref.Key)
	return s.Store.ReadRange(ctx, ref, offset, dst...)
}

// TestRun_IgnoresTheDirectoryMarker checks that the marker object of the dataset's own directory,
// which store consoles create, is not an object of the dataset.
func TestRun_IgnoresTheDirectoryMarker(t *testing.T) {
	store := memstore.New()
	store.Set("photos/", nil)
	store.Set("photos/a.jpg", []byte("a"))
	if rep, err := Run(t.Context(), store, "photos/", Options{}); err != nil || rep.Samples != 1 || rep.Ignored != 0 {
		t.Errorf("got %+v, %v, want one sample", rep, err)
	}
}

// TestRun_RejectsATruncatedIndexJSON checks that a truncated index.json returns an error, and that
// its shards are not treated as loose objects.
func TestRun_RejectsATruncatedIndexJSON(t *testing.T) {
	for name, index := range map[string]string{
		"litdata": `{"chunks": [{"chunk_bytes": 100, "chu`,
		"mds":     `{"shards": [{"column_`,
	} {
		store := memstore.New()
		store.Set("index.json", []byte(index))
		store.Set("chunk-0-0.bin", make([]byte, 100))
		_, err := Run(t.Context(), store, "", Options{})
		if err == nil || !strings.Contains(err.Error(), "look for "+name+" shards: index.json") {
			t.Errorf("%s: got %v, want a fault of index.json", name, err)
		}
		if rep, err := Run(t.Context(), store, "", Options{Format: "files"}); err != nil || rep.Samples != 2 {
			t.Errorf("%s, as files: got %+v, %v, want two samples", name, rep, err)
		}
	}
}

// TestRun_WrongCompressionSuffix checks that the error names a workaround if a format cannot
// inspect an object.
func TestRun_WrongCompressionSuffix(t *testing.T) {
	store := memstore.New()
	store.Set("a.json.gz", []byte("not compressed"))
	if _, err := Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), "a.json.gz: its name indicates gzip") || !strings.Contains(err.Error(), "--format files") {
		t.Errorf("got %v, want the object, and what to do", err)
	}
}
