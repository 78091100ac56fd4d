package build_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// checkAgainst reads every sample through the index and compares all data of the index with the
// expected samples.
func checkAgainst(t *testing.T, store objstore.Store, prefix string, x *chunkindex.Index, keys []string, samples [][]byte) {
	t.Helper()
	ctx := t.Context()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	if got, want := x.Samples(), uint64(len(samples)); got != want {
		t.Fatalf("samples: got %d, want %d", got, want)
	}
	var total, n int64
	for c := range x.Chunks() {
		ch, es := x.Chunk(c), x.Extents(c)
		if len(es) != 1 || es[0].Length != ch.Length || ch.First != uint64(n) {
			t.Fatalf("chunk %d: got %+v in %+v, want first sample %d", c, ch, es, n)
		}
		s := x.Shard(es[0].Shard)
		b := make([]byte, ch.Length)
		if err := store.ReadRange(ctx, objstore.Ref{Key: prefix + s.Key, ETag: s.ETag}, es[0].Offset, b); err != nil {
			t.Fatal(err)
		}
		if crc32.Checksum(b, castagnoli) != ch.CRC32C || sha256.Sum256(b) != ch.Digest {
			t.Fatalf("chunk %d: digests differ", c)
		}
		table, err := x.Table(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if table.Len() != int(ch.Samples) {
			t.Fatalf("chunk %d: got %d samples in its table, want %d", c, table.Len(), ch.Samples)
		}
		for i := range table.Len() {
			off := table.Offset(i)
			got := b[off : off+table.Length(i)]
			if !bytes.Equal(got, samples[n]) {
				t.Fatalf("sample %d: got %d bytes, want %d others", n, len(got), len(samples[n]))
			}
			if crc32.Checksum(got, castagnoli) != table.CRC32C(i) {
				t.Fatalf("sample %d: CRC differs", n)
			}
			if x.ChunkOf(uint64(n)) != c {
				t.Fatalf("sample %d: got chunk %d, want %d", n, x.ChunkOf(uint64(n)), c)
			}
			key, err := x.Key(ctx, uint64(n))
			if err != nil || key != keys[n] {
				t.Fatalf("key of %d: got %q, %v, want %q", n, key, err, keys[n])
			}
			at, ok, err := x.Lookup(ctx, key, "")
			if err != nil || !ok || at != uint64(n) {
				t.Fatalf("lookup of %q: got %d, %v, %v, want %d", key, at, ok, err, n)
			}
			total += int64(len(got))
			n++
		}
	}
	if n != int64(len(samples)) || x.Bytes() != total {
		t.Fatalf("got %d samples of %d bytes, want %d of %d", n, x.Bytes(), len(samples), total)
	}
	if _, ok, err := x.Lookup(ctx, "no such key", ""); ok || err != nil {
		t.Fatalf("lookup of a key that is not there: got %v, %v", ok, err)
	}
}

// TestRun_KeepsNames checks that all kinds of names that the scanner accepts are returned byte for
// byte.
func TestRun_KeepsNames(t *testing.T) {
	names := []string{
		"line\nbreak.jpg", "tab\tand\x1besc.jpg", "grün.jpg", "日本/語.png", "not\xffutf8.jpg", "README", "a/.hidden.jpg", "../up.txt", "/abs.txt",
		strings.Repeat("d/", 2046) + "four", strings.Repeat("n", 4092) + ".jpg", "empty.bin",
	}
	var keys []string
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var samples [][]byte
	for _, n := range names {
		start := b.Len()
		h := &tar.Header{Name: n, Mode: 0o644, Size: int64(len(n) % 7)}
		if !utf8.ValidString(n) || len(n) > 255 {
			h.Format = tar.FormatGNU
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(n)[:h.Size]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		key, _ := naming.Member(n)
		keys, samples = append(keys, key), append(samples, bytes.Clone(b.Bytes()[start:]))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	store.Set("a.tar", b.Bytes())
	for _, chunk := range []int64{1, 4096, 8 << 20} {
		if _, err := build.Run(t.Context(), store, "", build.Options{ChunkSize: chunk, Hidden: true}); err != nil {
			t.Fatal(err)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkAgainst(t, store, "", x, keys, samples)
		x.Close()
	}
}

// TestRun_EmptyArchives checks that all forms of archives without samples become shards without
// samples.
func TestRun_EmptyArchives(t *testing.T) {
	store := memstore.New()
	store.Set("no-bytes.tar", nil)
	store.Set("one-block.tar", make([]byte, 512))
	store.Set("end-only.tar", make([]byte, 1024))
	store.Set("padded.tar", make([]byte, 10240))
	if _, err := build.Run(t.Context(), store, "", build.Options{}); err == nil || !strings.Contains(err.Error(), "the shards of format tar, 11776 bytes in total, such as end-only.tar, have no samples: no index was published") {
		t.Errorf("got %v, want them refused by name", err)
	}
	if _, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("got %v, want nothing published", err)
	}
	rep, err := build.Run(t.Context(), store, "", build.Options{AllowEmpty: true})
	if err != nil || rep.Shards != 4 || rep.Samples != 0 || rep.Chunks != 0 {
		t.Fatalf("got %+v, %v, want four shards of no samples", rep, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkAgainst(t, store, "", x, nil, nil)
	if err := chunkindex.Verify(t.Context(), x, store, "", 2, nil, func(b chunkindex.BadRange) { t.Errorf("got %+v", b) }); err != nil {
		t.Error(err)
	}
}

func TestRun_RoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		sizes  []int
		shards int
		chunk  int64
	}{
		"no samples":     {nil, 1, 0},
		"one sample":     {[]int{5}, 1, 0},
		"zero length":    {[]int{0, 0, 7, 0}, 2, 4096},
		"empty shards":   {[]int{100, 200}, 5, 0},
		"many":           {indextest.Random(2000, 0, 3000, 1), 7, 64 << 10},
		"larger samples": {indextest.Random(50, 0, 60000, 2), 3, 16 << 10},
		"one a chunk":    {indextest.Sizes(20, 10), 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			d := indextest.Make(t, store, indextest.Spec{Prefix: "a/b/", Sizes: c.sizes, Shards: c.shards, Build: build.Options{ChunkSize: c.chunk}})
			checkAgainst(t, store, "a/b/", d.Index, d.Keys, d.Samples)
			for i := range d.Index.Chunks() {
				if ch := d.Index.Chunk(i); c.chunk > 0 && ch.Length > c.chunk && ch.Samples > 1 {
					t.Errorf("chunk %d: got %d samples in %d bytes, more than %d", i, ch.Samples, ch.Length, c.chunk)
				}
			}
		})
	}
}
