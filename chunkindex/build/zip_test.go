package build

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// zipOf returns a zip archive of images. method selects whether each image is stored or deflated.
func zipOf(t *testing.T, first, n int, method func(i int) uint16) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := first; i < first+n; i++ {
		f, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("d/%03d.jpg", i), Method: method(i)})
		if err == nil {
			_, err = f.Write([]byte(strings.Repeat("jpg"+fmt.Sprint(i), 1+i%40)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRun_ZipArchives checks that stored members of archives are indexed as ranges. Other members
// must be indexed as chunks, which decode to their digests.
func TestRun_ZipArchives(t *testing.T) {
	stored := func(int) uint16 { return zip.Store }
	mixed := func(i int) uint16 { return []uint16{zip.Store, zip.Deflate, zip.Deflate}[i%3] }
	store := memstore.New()
	store.Set("a.zip", zipOf(t, 0, 50, stored))
	store.Set("b.zip", zipOf(t, 50, 150, mixed))
	store.Set("c.zip", nil)
	rep, err := Run(t.Context(), store, "", Options{ChunkSize: 1000})
	if err != nil || rep.Format != "zip" || rep.Samples != 200 || rep.Empty != 1 || rep.ReadBytes == 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var kinds [2]int
	for i := range x.Chunks() {
		c, e := x.Chunk(i), x.Extents(i)[0]
		b := make([]byte, e.Length)
		if err := store.ReadRange(t.Context(), objstore.Ref{Key: x.Shard(e.Shard).Key, ETag: x.Shard(e.Shard).ETag}, e.Offset, b); err != nil {
			t.Fatal(err)
		}
		kinds[min(1, c.Codec)]++
		if c.Codec != codec.None {
			dst := make([]byte, c.Length)
			if err := x.Decode(t.Context(), i, b, dst); err != nil {
				t.Errorf("chunk %d: %v", i, err)
			}
			b = dst
		}
		table, err := x.Table(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for j := range table.Len() {
			off := table.Offset(j)
			key, err := x.Key(t.Context(), x.First()[i]+uint64(j))
			if err != nil || !strings.HasPrefix(string(b[off:]), "jpg"+strings.TrimLeft(strings.TrimPrefix(key[:len(key)-1], "d/"), "0")) {
				t.Errorf("sample %s: got %.10q, %v", key, b[off:], err)
			}
		}
	}
	if kinds[0] < 2 || kinds[1] < 2 {
		t.Errorf("got %d chunks of stored members, %d of others, want several", kinds[0], kinds[1])
	}
	var bad []chunkindex.BadRange
	if err := chunkindex.Verify(t.Context(), x, store, "", 2, nil, func(b chunkindex.BadRange) { bad = append(bad, b) }); err != nil || len(bad) > 0 {
		t.Errorf("verify: got %v, %v", bad, err)
	}
	again, err := Run(t.Context(), store, "", Options{ChunkSize: 1000})
	if err != nil || !again.Unchanged || again.ReadBytes != 0 {
		t.Errorf("again: got %+v, %v", again, err)
	}
}

// TestRun_ZipIsGroupedLikeTar checks that the members of a zip archive form the same samples as the
// members of a tar, for every compression method.
func TestRun_ZipIsGroupedLikeTar(t *testing.T) {
	names := []string{"d/1.jpg", "d/1.txt", "d/1.seg.png", "d/2.jpg", "d.x/2.cls", "d.x/2.jpg", "README", "README.more", "f.0001.png", "f.0002.png"}
	samples := func(key string, body []byte) (all []string) {
		store := memstore.New()
		store.Set(key, body)
		rep, err := Run(t.Context(), store, "", Options{ChunkSize: 2000})
		if err != nil || rep.Chunks < 3 {
			t.Fatalf("%s: got %+v, %v", key, rep, err)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		var bad []chunkindex.BadRange
		if err := chunkindex.Verify(t.Context(), x, store, "", 1, nil, func(b chunkindex.BadRange) { bad = append(bad, b) }); err != nil || len(bad) > 0 {
			t.Errorf("%s: verify: got %v, %v", key, bad, err)
		}
		for i := range x.Chunks() {
			names, err := x.Names(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := x.Parts(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			for j := range int(x.First()[i+1] - x.First()[i]) {
				sample := names.Key(j)
				for _, p := range parts.Append(nil, j) {
					sample += fmt.Sprintf(" %s:%d:%x", p.Ext, p.Length, p.CRC32C)
				}
				all = append(all, sample)
			}
		}
		return all
	}
	var tarred bytes.Buffer
	w := tar.NewWriter(&tarred)
	content := func(i int) []byte { return []byte(strings.Repeat(names[i], 20*(i+1))) }
	for i, name := range names {
		err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content(i))), Mode: 0o644})
		if err == nil {
			_, err = w.Write(content(i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := samples("a.tar", tarred.Bytes())
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		var zipped bytes.Buffer
		w := zip.NewWriter(&zipped)
		for i, name := range names {
			f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
			if err == nil {
				_, err = f.Write(content(i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, samples("a.zip", zipped.Bytes())); d != "" {
			t.Errorf("method %d: %s", method, d)
		}
	}
}
