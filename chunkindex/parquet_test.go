package chunkindex

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore/memstore"
)

// parquetFile returns a file that pyarrow wrote.
func parquetFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("codec/rowgroup/testdata/" + name + ".parquet")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Row groups join in chunks up to the chunk size, and none is part of two: the three of each file here have about 1,100 bytes, and half of that.
func TestRowGroupsJoin(t *testing.T) {
	store := memstore.New()
	store.Set("a.parquet", parquetFile(t, "checksums"))
	store.Set("b.parquet", parquetFile(t, "checksums"))
	store.Set("c.parquet", nil)
	for size, want := range map[int64]int{1: 6, 1800: 4, 8 << 20: 2} {
		rep, err := Build(t.Context(), store, "", BuildOptions{ChunkSize: size})
		if err != nil || rep.Samples != 100 || rep.Format != "parquet" {
			t.Fatalf("got %+v, %v, want 100 samples", rep, err)
		}
		x, err := Open(t.Context(), store, "", OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, store, x)
		samples := uint32(0)
		for i := range x.Chunks() {
			c := x.Chunk(i)
			samples += c.Samples
			if c.Codec != codec.Parquet || c.Skip != 0 || c.Samples%10 != 0 {
				t.Errorf("chunks of %d: chunk %d is %+v, want whole row groups", size, i, c)
			}
		}
		if x.Chunks() != want || samples != 100 {
			t.Errorf("chunks of %d: got %d of %d samples, want %d", size, x.Chunks(), samples, want)
		}
		if err := Verify(t.Context(), x, store, "", 2, nil, func(b BadRange) { t.Errorf("chunks of %d: %+v", size, b) }); err != nil {
			t.Errorf("chunks of %d: %v", size, err)
		}
		x.Close()
	}
}

// A shard whose scan was kept or is in the index before is not read again, and the generation is the same.
func TestParquetIsReused(t *testing.T) {
	store := memstore.New()
	store.Set("a.parquet", parquetFile(t, "nested-pages-v1"))
	first, err := Build(t.Context(), store, "", BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store.Set("b.parquet", parquetFile(t, "nested-pages-v2"))
	second, err := Build(t.Context(), store, "", BuildOptions{})
	if err != nil || second.ReusedShards != 1 || second.Samples != 2*first.Samples {
		t.Fatalf("got %+v, %v, want one shard reused", second, err)
	}
	x, err := Open(t.Context(), store, "", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkChunks(t, store, x)
	store.Set("c.parquet", parquetFile(t, "types"))
	if _, err := Build(t.Context(), store, "", BuildOptions{}); err == nil || !strings.Contains(err.Error(), "c.parquet") || !strings.Contains(err.Error(), "schema") {
		t.Errorf("got %v, want a refusal of the file of another schema", err)
	}
}
