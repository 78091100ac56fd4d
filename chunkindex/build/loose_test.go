package build

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// checkPhotos reads every sample of an index of loose objects and compares it with its object.
func checkPhotos(t *testing.T, store *memstore.Store, x *chunkindex.Index, want map[string][]byte) {
	t.Helper()
	seen := 0
	for i := range x.Chunks() {
		c := x.Chunk(i)
		var chunk []byte
		for _, e := range x.Extents(i) {
			s := x.Shard(e.Shard)
			b := make([]byte, e.Length)
			if err := store.ReadRange(t.Context(), objstore.Ref{Key: s.Key, ETag: s.ETag}, e.Offset, b); err != nil {
				t.Fatal(err)
			}
			chunk = append(chunk, b...)
		}
		if int64(len(chunk)) != c.Length || c.Stored != c.Length || int(c.Samples) != len(x.Extents(i)) || x.ExtentCount(i) != int(c.Samples) {
			t.Fatalf("chunk %d: got %+v of %d bytes in %d extents", i, c, len(chunk), x.ExtentCount(i))
		}
		table, err := x.Table(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := x.Parts(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for j := range table.Len() {
			off := table.Offset(j)
			key, err := x.Key(t.Context(), c.First+uint64(j))
			if err != nil || !bytes.Equal(chunk[off:off+table.Length(j)], want[key+".jpg"]) {
				t.Fatalf("sample %q: got other bytes, %v", key, err)
			}
			if p := parts.Append(nil, j); len(p) != 1 || p[0].Ext != "jpg" || p[0].Offset != 0 || p[0].Length != table.Length(j) {
				t.Fatalf("sample %q: got parts %+v", key, p)
			}
			e := chunkindex.Locate(c, x.Extents(i), int64(off))
			if s := x.Shard(e.Shard); s.Key != key+".jpg" || e.Offset != 0 || e.Length != s.Size {
				t.Fatalf("sample %q: got %+v of %s, want its object", key, e, s.Key)
			}
			seen++
		}
	}
	if seen != len(want) {
		t.Fatalf("got %d samples, want %d", seen, len(want))
	}
}

func TestRun_LooseObjects(t *testing.T) {
	store := memstore.New()
	want := shards.Photos(store, 500)
	store.Set("dir.0/", nil) // a directory marker
	opt := Options{ChunkSize: 1000}
	rep, err := Run(t.Context(), store, "", opt)
	if err != nil || rep.Format != "files" || rep.Samples != 500 || rep.Shards != 500 || rep.ReadBytes != rep.Bytes || rep.Ignored != 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkPhotos(t, store, x, want)
	if x.Framing() != nil || x.Native() != "tar" || x.Format() != "files" {
		t.Errorf("got %v, %s, %s, want no framing, and tar", x.Framing(), x.Native(), x.Format())
	}
	if again, err := Run(t.Context(), store, "", opt); err != nil || !again.Unchanged || again.ReadBytes != 0 || again.ReusedShards != 500 {
		t.Errorf("again: got %+v, %v", again, err)
	}
	store.Set("dir.1/photo-00100.jpg", bytes.Repeat([]byte("x"), 101%50))
	var bad []chunkindex.BadRange
	if err := chunkindex.Verify(t.Context(), x, store, "", 3, nil, func(b chunkindex.BadRange) { bad = append(bad, b) }); err != nil || len(bad) != 1 || bad[0].Shard != "dir.1/photo-00100.jpg" {
		t.Errorf("verify: got %+v, %v, want the one that was replaced", bad, err)
	}
}

// TestRun_ReusesRunsOfLooseObjects checks that a change in one run of objects does not affect the
// other runs. The index must equal the index of a run from scratch.
func TestRun_ReusesRunsOfLooseObjects(t *testing.T) {
	store := memstore.New()
	var ends []string
	for i := 0; len(ends) < 3; i++ {
		key := fmt.Sprintf("p%07d.jpg", i)
		if endsRun(key) {
			ends = append(ends, key)
		}
	}
	var size int64
	put := func(key string) { store.Set(key, []byte(key)); size += int64(len(key)) }
	for i, end := range ends { // three short runs of objects, and the remaining objects
		put(end)
		for j := range 5 {
			put(fmt.Sprintf("%s-%d-%d.jpg", strings.TrimSuffix(end, ".jpg"), i, j))
		}
	}
	opt := Options{ChunkSize: 30}
	if _, err := Run(t.Context(), store, "", opt); err != nil {
		t.Fatal(err)
	}
	put(strings.TrimSuffix(ends[1], ".jpg") + "-new.jpg")
	rep, err := Run(t.Context(), store, "", opt)
	if err != nil || rep.ReusedShards == 0 || rep.ReadBytes == 0 || rep.ReadBytes > size/2 {
		t.Errorf("one object more: got %+v, %v, want a run of %d bytes read", rep, err, size)
	}
	scans := 0
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, layout.ScanDir) {
			scans++
		}
	}
	fresh := memstore.New()
	for _, k := range store.Keys() {
		if b, _ := store.Bytes(k); !layout.OwnObject(k) {
			fresh.Set(k, b)
		}
	}
	if want, err := Run(t.Context(), fresh, "", opt); err != nil || want.Generation != rep.Generation || scans != 0 {
		t.Errorf("from nothing: got %+v, %v, want generation %s", want, err, rep.Generation)
	}
}

// TestRun_RemovedLooseObjects checks that, after any removals, the index equals the index of a run
// from scratch. If a run of objects has lost its last objects, the affected chunk is cut again.
func TestRun_RemovedLooseObjects(t *testing.T) {
	store := memstore.New()
	opt := Options{ChunkSize: 100}
	shards.Photos(store, 60)
	keys := slices.Sorted(slices.Values(store.Keys()))
	if _, err := Run(t.Context(), store, "", opt); err != nil {
		t.Fatal(err)
	}
	for len(keys) > 1 {
		last := keys[len(keys)-1]
		keys = keys[:len(keys)-1]
		if err := store.Delete(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		fresh := memstore.New()
		for _, key := range keys {
			b, _ := store.Bytes(key)
			fresh.Set(key, b)
		}
		got, err := Run(t.Context(), store, "", opt)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Run(t.Context(), fresh, "", opt)
		if err != nil || got.Generation != want.Generation || got.Samples != uint64(len(keys)) {
			t.Fatalf("without %s: got %+v, %v, want generation %s of %d samples", last, got, err, want.Generation, len(keys))
		}
	}
}

// contentStore is a store whose ETags are digests of the content, like the ETags of S3.
type contentStore struct{ *memstore.Store }

func (h contentStore) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return h.Store.List(ctx, prefix, func(o objstore.Object) error {
		b, _ := h.Bytes(o.Key)
		o.ETag = fmt.Sprintf("md5 %x", md5.Sum(b))
		return visit(o)
	})
}

func (h contentStore) ReadRange(ctx context.Context, ref objstore.Ref, off int64, dst ...[]byte) error {
	if strings.HasPrefix(ref.ETag, "md5 ") {
		ref.ETag = ""
	}
	return h.Store.ReadRange(ctx, ref, off, dst...)
}

// TestRun_RenamedLooseObject checks that a renamed object gets its new key, even if its bytes, ETag
// and position are unchanged.
func TestRun_RenamedLooseObject(t *testing.T) {
	store := contentStore{memstore.New()}
	for _, key := range []string{"a.jpg", "b.jpg", "d.jpg"} {
		store.Set(key, []byte("the same"))
	}
	if _, err := Run(t.Context(), store, "", Options{}); err != nil {
		t.Fatal(err)
	}
	store.Delete(t.Context(), "b.jpg")
	store.Set("c.jpg", []byte("the same"))
	if _, err := Run(t.Context(), store, "", Options{}); err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if n, ok, err := x.Lookup(t.Context(), "c", ""); n != 1 || !ok || err != nil {
		t.Errorf("got sample %d, %v, %v, want 1", n, ok, err)
	}
}

// TestKeep_StoresRunsOfLooseObjects checks that a killed index run leaves one scan for each run of
// objects, not for each object, and that the next index run reuses these scans.
func TestKeep_StoresRunsOfLooseObjects(t *testing.T) {
	store := memstore.New()
	shards.Photos(store, 300)
	interrupted(t, store)
	kept := slices.DeleteFunc(store.Keys(), func(k string) bool { return !strings.HasPrefix(k, layout.ScanDir) })
	if len(kept) != 1 {
		t.Errorf("got %d scans of 300 objects, want 1", len(kept))
	}
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil || rep.ReadBytes != 0 || rep.ReusedShards != 300 {
		t.Errorf("got %+v, %v, want everything taken from the scan", rep, err)
	}
}

func TestRun_RejectsLooseObjects(t *testing.T) {
	for name, test := range map[string]struct {
		objects map[string]string
		match   string
		want    string
	}{
		"empty object":       {map[string]string{"a.jpg": "a", "b.jpg": ""}, "", "object b.jpg has no bytes: --match '!b.jpg' leaves it out"},
		"empty one left out": {map[string]string{"d/a.jpg": "a", "d/b.jpg": ""}, "!b.jpg", ""},
		"left out":           {map[string]string{"a.jpg": "a", "b.txt": ""}, "*.jpg", ""},
		"of two kinds":       {map[string]string{"d/a.jpg": "a", "d/a.json": "b"}, "", "1 image (*.jpg), 1 text (*.json): choose one kind with --match"},
		"of no known kind":   {map[string]string{"d/a.jpg": "a", "d/classes": "b"}, "", "object d/classes: its name is not that of an image"},
		"one of them":        {map[string]string{"d/a.jpg": "a", "d/a.json": "b"}, "*.json", ""},
		"a marker":           {map[string]string{"a.jpg": "a", "_SUCCESS": "", "d/_done": ""}, "", ""},
		"a note":             {map[string]string{"a.jpg": "a", "README.md": "about"}, "", ""},
		"whole key":          {map[string]string{"d/a.jpg": "a", "e/b.jpg": ""}, "d/*", ""},
		"nothing matches":    {map[string]string{"a.jpg": "a"}, "*.png", `no shards found: 0 objects that match "*.png"; the pattern excludes 1, such as a.jpg: not found`},
		"other pattern":      {map[string]string{"a.jpg": "a"}, "[", "syntax error in pattern"},
	} {
		store := memstore.New()
		for k, v := range test.objects {
			store.Set(k, []byte(v))
		}
		rep, err := Run(t.Context(), store, "", Options{Match: test.match})
		if test.want == "" {
			if err != nil || rep.Samples != 1 {
				t.Errorf("%s: got %+v, %v, want one sample", name, rep, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	notes := memstore.New()
	notes.Set("README.md", []byte("a"))
	_, err := Run(t.Context(), notes, "", Options{})
	if !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "tfrecord (") || !strings.Contains(err.Error(), "mds (") {
		t.Errorf("no shard: got %v, want what was looked for", err)
	}
}

// TestRun_EmptyPrefix checks that the error for a prefix without objects suggests the intended
// location.
func TestRun_EmptyPrefix(t *testing.T) {
	store := memstore.New()
	for _, key := range []string{".millrace/current", "deep/er/x.jpg", "notes.txt", "sheep/1.jpg", "shapes/part-0.parquet", "shapes/part-1.parquet", "z/1", "a/1", "b/1", "c/1"} {
		store.Set(key, []byte("x"))
	}
	for prefix, want := range map[string]string{
		"shpaes/":                `no shards found: no objects under "shpaes/"; found nearby: notes.txt, shapes/, sheep/, z/: not found`,
		"deep/ee/":               `no shards found: no objects under "deep/ee/"; found nearby: er/: not found`,
		"none/such/":             `no shards found: no objects under "none/such/": not found`,
		"shapes/part-0.parquet/": `no shards found: shapes/part-0.parquet is an object: use its prefix, "shapes/", and --match "part-0.parquet" to select only this object: not found`,
	} {
		_, err := Run(t.Context(), store, prefix, Options{})
		if !errors.Is(err, objstore.ErrNotFound) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", prefix, err, want)
		}
	}
	if _, err := Run(t.Context(), memstore.New(), "", Options{}); !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "the location is empty") {
		t.Errorf("nothing at all: got %v", err)
	}
}

// TestRun_StreamsLongLooseObjects checks that an object too long for the read buffer is streamed.
func TestRun_StreamsLongLooseObjects(t *testing.T) {
	store := memstore.New()
	store.Set("a.bin", []byte("a"))
	store.Set("b.bin", bytes.Repeat([]byte("long"), maxAhead/4+1))
	store.Set("c.bin", []byte("c"))
	rep, err := Run(t.Context(), store, "", Options{Format: "files", Parallel: 3})
	if err != nil || rep.Samples != 3 || rep.Chunks != 3 || rep.ReadBytes != rep.Bytes {
		t.Errorf("got %+v, %v", rep, err)
	}
}
