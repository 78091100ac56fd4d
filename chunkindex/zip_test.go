package chunkindex

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/memstore"
)

// zipOf is an archive of pictures, whose contents are deflated where that is asked for.
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

// Archives are indexed where they lie: stored members as ranges, and others as chunks that decode to their digests.
func TestZipArchives(t *testing.T) {
	stored := func(int) uint16 { return zip.Store }
	mixed := func(i int) uint16 { return []uint16{zip.Store, zip.Deflate, zip.Deflate}[i%3] }
	store := memstore.New()
	store.Set("a.zip", zipOf(t, 0, 50, stored))
	store.Set("b.zip", zipOf(t, 50, 150, mixed))
	store.Set("c.zip", nil)
	rep, err := Build(t.Context(), store, "", BuildOptions{ChunkSize: 1000})
	if err != nil || rep.Format != "zip" || rep.Samples != 200 || rep.Empty != 1 || rep.ReadBytes == 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	x, err := Open(t.Context(), store, "", OpenOptions{})
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
		for j, off := range table.Offset {
			key, err := x.Key(t.Context(), x.First()[i]+uint64(j))
			if err != nil || !strings.HasPrefix(string(b[off:]), "jpg"+strings.TrimLeft(strings.TrimPrefix(key[:len(key)-1], "d/"), "0")) {
				t.Errorf("sample %s: got %.10q, %v", key, b[off:], err)
			}
		}
	}
	if kinds[0] < 2 || kinds[1] < 2 {
		t.Errorf("got %d chunks of stored members, %d of others, want several", kinds[0], kinds[1])
	}
	var bad []BadRange
	if err := Verify(t.Context(), x, store, "", 2, nil, func(b BadRange) { bad = append(bad, b) }); err != nil || len(bad) > 0 {
		t.Errorf("verify: got %v, %v", bad, err)
	}
	again, err := Build(t.Context(), store, "", BuildOptions{ChunkSize: 1000})
	if err != nil || !again.Unchanged || again.ReadBytes != 0 {
		t.Errorf("again: got %+v, %v", again, err)
	}
}
