package build

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestRun_NamesOfCompressedShards checks that a compressed shard has the same sample keys as the
// uncompressed shard, for every name that indicates the compression.
func TestRun_NamesOfCompressedShards(t *testing.T) {
	const length = 1000
	records := make([]byte, 7*length)
	for _, name := range []string{"a.bin", "a.bin.gz", "a.bin.zst", "a.bin.zstd", "a.zstd.bin", "a.zstd:4.bin"} {
		c, _ := codec.Of(name)
		stored := records
		if c != codec.None {
			stored = codectest.PackAt(c, records)
		}
		store := memstore.New()
		store.Set(name, stored)
		if _, err := Run(t.Context(), store, "", Options{Hints: format.Options{RecordSize: length}}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if key, err := x.Key(t.Context(), 6); x.Samples() != 7 || key != "a/000000006" || err != nil {
			t.Errorf("%s: got %d samples, the last %q, %v, want 7, a/000000006", name, x.Samples(), key, err)
		}
		x.Close()
	}
}

// TestRun_NamesThatAreOnlyASuffix checks that a name that consists only of a compression suffix
// does not indicate compression.
func TestRun_NamesThatAreOnlyASuffix(t *testing.T) {
	store := memstore.New()
	for _, name := range []string{".gz", "d/.zst", "d/x"} {
		store.Set(name, []byte("as it is"))
	}
	if rep, err := Run(t.Context(), store, "", Options{Hidden: true, Format: "files"}); err != nil || rep.Samples != 3 || rep.Format != "files" {
		t.Errorf("got %+v, %v, want 3 loose objects", rep, err)
	}
}
