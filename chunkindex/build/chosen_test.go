package build

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// buildChosen indexes the files of a store with the named columns. It returns the report and the
// open index.
func buildChosen(t *testing.T, store *memstore.Store, opt Options, names ...string) (Report, *chunkindex.Index) {
	t.Helper()
	opt.Hints.Fields = names
	rep, err := Run(t.Context(), store, "", opt)
	if err != nil {
		t.Fatalf("%v: %v", names, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{Name: opt.Name})
	if err != nil {
		t.Fatalf("%v: %v", names, err)
	}
	t.Cleanup(func() { x.Close() })
	return rep, x
}

// decodeExtents decodes a chunk from its concatenated extents.
func decodeExtents(t *testing.T, store *memstore.Store, x *chunkindex.Index, chunk int) []byte {
	t.Helper()
	c := x.Chunk(chunk)
	stored := make([]byte, 0, c.Stored)
	for _, e := range x.Extents(chunk) {
		b := make([]byte, e.Length)
		if err := store.ReadRange(t.Context(), objstore.Ref{Key: x.Shard(e.Shard).Key, ETag: x.Shard(e.Shard).ETag}, e.Offset, b); err != nil {
			t.Fatal(err)
		}
		stored = append(stored, b...)
	}
	dst := make([]byte, c.Length)
	if err := x.Decode(t.Context(), chunk, stored, dst); err != nil || int64(len(stored)) != c.Stored || sha256.Sum256(dst) != c.Digest {
		t.Errorf("chunk %d: got %v, %d stored bytes of %d, or another digest", chunk, err, len(stored), c.Stored)
	}
	return dst
}

// TestRun_ChosenColumnsAreExtents checks that, with selected columns, chunks consist of the
// columns' extents of one or more whole row groups.
func TestRun_ChosenColumnsAreExtents(t *testing.T) {
	for size, chunks := range map[int64]int{1: 6, 8 << 20: 2} {
		store := memstore.New()
		store.Set("a.parquet", parquetFile(t, "checksums"))
		store.Set("b.parquet", parquetFile(t, "checksums"))
		_, whole := buildChosen(t, store, Options{ChunkSize: size})
		rep, x := buildChosen(t, store, Options{ChunkSize: size, Name: "some"}, "text", "int32")
		if x.Chunks() != chunks || rep.Samples != 100 || rep.ReusedShards != 0 {
			t.Fatalf("chunks of %d: got %+v in %d chunks", size, rep, x.Chunks())
		}
		for i := range chunks {
			if n := x.ExtentCount(i); n != 2*6/chunks {
				t.Errorf("chunks of %d: chunk %d has %d extents, want two of each row group", size, i, n)
			}
			if got := x.Chunk(i).Stored; got <= 0 || got >= whole.Chunk(0).Stored {
				t.Errorf("chunks of %d: chunk %d has %d stored bytes of %d", size, i, got, whole.Chunk(0).Stored)
			}
			decodeExtents(t, store, x, i)
		}
		if names := x.Fields(); len(names) != 2 || names[0].Name != "int32" || names[1].Name != "text" {
			t.Errorf("got fields %+v, want the two in the order of the file", names)
		}
		if err := chunkindex.Verify(t.Context(), x, store, "", 2, nil, func(b chunkindex.BadRange) { t.Errorf("%+v", b) }); err != nil {
			t.Error(err)
		}
	}
}

// TestRun_ChosenColumnsChangeTheGeneration checks that a selection of columns applies to one run
// only. Another selection produces another generation of the same index. Selecting all columns by
// name is the same as selecting none.
func TestRun_ChosenColumnsChangeTheGeneration(t *testing.T) {
	store := memstore.New()
	store.Set("a.parquet", parquetFile(t, "nested-pages-v1"))
	none, x := buildChosen(t, store, Options{})
	one, _ := buildChosen(t, store, Options{Name: "some"}, "captions")
	again, _ := buildChosen(t, store, Options{Name: "some"}, "captions")
	other, _ := buildChosen(t, store, Options{Name: "some"}, "captions", "image.path")
	first, _ := buildChosen(t, store, Options{Name: "other"}, "captions", "captions")
	var names []string
	for _, f := range x.Fields() {
		names = append(names, f.Name)
	}
	all, _ := buildChosen(t, store, Options{Name: "all"}, names...)
	if one.Generation == none.Generation || other.Generation == one.Generation || other.Unchanged || other.ReusedShards != 0 {
		t.Errorf("got %s, %s and %s, want three generations", none.Generation, one.Generation, other.Generation)
	}
	if !again.Unchanged || again.ReadBytes != 0 || first.Generation != one.Generation {
		t.Errorf("the same columns again: got %+v and %s, want generation %s", again, first.Generation, one.Generation)
	}
	if all.Generation != none.Generation || all.ReusedShards != 1 {
		t.Errorf("all columns: got %+v, want the index without names, and nothing read", all)
	}
	if back, _ := buildChosen(t, store, Options{Name: "some"}); back.Generation != none.Generation || back.Unchanged {
		t.Errorf("without names: got %+v, want generation %s", back, none.Generation)
	}
}

// TestVerify_ChosenColumns checks that Verify reports damage in a selected column as a range of the
// shard that contains the chunk, and does not read other columns.
func TestVerify_ChosenColumns(t *testing.T) {
	store := memstore.New()
	file := parquetFile(t, "checksums")
	store.Set("a.parquet", file)
	_, x := buildChosen(t, store, Options{}, "int32", "float")
	extents := x.Extents(0)
	end := extents[len(extents)-1].Offset + extents[len(extents)-1].Length
	for at, want := range map[int64]int{extents[0].Offset + 30: 1, extents[1].Offset + 30: 1, extents[0].Offset + extents[0].Length + 30: 0} {
		damaged := bytes.Clone(file)
		damaged[at] ^= 1
		again := memstore.New()
		again.Set("a.parquet", damaged)
		var bad []chunkindex.BadRange
		if err := chunkindex.Verify(t.Context(), x, again, "", 1, nil, func(b chunkindex.BadRange) { bad = append(bad, b) }); err != nil {
			t.Fatal(err)
		}
		if len(bad) != want || want == 1 && (bad[0].Offset != extents[0].Offset || bad[0].Length != end-bad[0].Offset || bad[0].Cause != "corrupt") {
			t.Errorf("byte %d: got %+v, want %d", at, bad, want)
		}
	}
}

// TestRun_RejectsFields checks that formats whose columns are not stored separately reject a
// selection of columns, and that the error names an alternative.
func TestRun_RejectsFields(t *testing.T) {
	for key, want := range map[string]string{
		"a.tar":     "--fields does not apply to webdataset shards",
		"a.jsonl":   "--fields does not apply to jsonl shards: it is for parquet (--format); to leave parts out of a response, use fields= in the request",
		"a.parquet": `no column has the name "json"`,
	} {
		store := memstore.New()
		switch key {
		case "a.parquet":
			store.Set(key, parquetFile(t, "types"))
		case "a.tar":
			store.Set(key, make([]byte, 10240))
			want = strings.ReplaceAll(want, "webdataset", "tar")
		default:
			store.Set(key, []byte("{\"a\":1}\n"))
		}
		_, err := Run(t.Context(), store, "", Options{Hints: format.Options{Fields: []string{"json"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", key, err, want)
		}
		if keys := store.Keys(); slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, ".millrace") }) {
			t.Errorf("%s: got %v, want nothing written", key, keys)
		}
	}
}

// TestExtentOrder_RowGroups checks that an index is rejected if the extents of a chunk overlap or
// are not in order.
func TestExtentOrder_RowGroups(t *testing.T) {
	for name, extents := range map[string][]layout.Extent{
		"one inside the other": {{Offset: 4, Length: 100}, {Offset: 50, Length: 60}},
		"one twice":            {{Offset: 4, Length: 100}, {Offset: 4, Length: 100}},
		"out of order":         {{Offset: 200, Length: 10}, {Offset: 4, Length: 100}},
		"no bytes":             {{Offset: 4, Length: 0}},
		"outside the shard":    {{Offset: 4, Length: 10}, {Offset: 995, Length: 10}},
	} {
		o := layout.ExtentOrder{Shards: []layout.Shard{{Key: "a", Size: 1000}}}
		var err error
		for _, e := range extents {
			if err == nil {
				err = o.Next(e, 500, codec.Parquet)
			}
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := layout.CheckCodec(codec.Parquet, 0, 2); err != nil {
		t.Errorf("two extents of row groups: %v", err)
	}
	for _, c := range []codec.Codec{codec.Gzip, codec.Zstd, codec.Xz, codec.Zip, codec.Arrow, codec.LineFeed} {
		if err := layout.CheckCodec(c, 0, 2); err == nil {
			t.Errorf("two extents of codec %v: got no error", c)
		}
	}
}
