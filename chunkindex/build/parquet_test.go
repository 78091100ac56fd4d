package build

import (
	"os"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// parquetFile returns a file written by pyarrow.
func parquetFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../codec/rowgroup/testdata/" + name + ".parquet")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRun_JoinsRowGroups checks that row groups are joined into chunks up to the chunk size, and
// that no row group is split. Each file has two row groups of about 1,100 bytes and a last one of
// half that size.
func TestRun_JoinsRowGroups(t *testing.T) {
	store := memstore.New()
	store.Set("a.parquet", parquetFile(t, "checksums"))
	store.Set("b.parquet", parquetFile(t, "checksums"))
	store.Set("c.parquet", nil)
	for size, want := range map[int64]int{1: 6, 1800: 4, 8 << 20: 2} {
		rep, err := Run(t.Context(), store, "", Options{ChunkSize: size})
		if err != nil || rep.Samples != 100 || rep.Format != "parquet" {
			t.Fatalf("got %+v, %v, want 100 samples", rep, err)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
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
		if err := chunkindex.Verify(t.Context(), x, store, "", 2, nil, func(b chunkindex.BadRange) { t.Errorf("chunks of %d: %+v", size, b) }); err != nil {
			t.Errorf("chunks of %d: %v", size, err)
		}
		x.Close()
	}
}

// TestRun_ReusesParquetShards checks that a shard is not read again if it has a stored scan or is
// in the previous index, and that the generation is the same.
func TestRun_ReusesParquetShards(t *testing.T) {
	store := memstore.New()
	store.Set("a.parquet", parquetFile(t, "nested-pages-v1"))
	first, err := Run(t.Context(), store, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	store.Set("b.parquet", parquetFile(t, "nested-pages-v2"))
	second, err := Run(t.Context(), store, "", Options{})
	if err != nil || second.ReusedShards != 1 || second.Samples != 2*first.Samples {
		t.Fatalf("got %+v, %v, want one shard reused", second, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkChunks(t, store, x)
	store.Set("c.parquet", parquetFile(t, "types"))
	third, err := Run(t.Context(), store, "", Options{})
	if err != nil || third.ReusedShards != 0 || third.Samples <= second.Samples {
		t.Errorf("a file with more columns: got %+v, %v, want all shards scanned with the schema of all", third, err)
	}
	again, err := Run(t.Context(), store, "", Options{})
	if err != nil || again.ReusedShards != 3 || again.Generation != third.Generation {
		t.Errorf("again: got %+v, %v, want all shards reused", again, err)
	}
	mapped, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	checkChunks(t, store, mapped)
}

// TestRun_ReadmeNamesClasses checks that class names come from README.md, independent of the
// selected objects.
func TestRun_ReadmeNamesClasses(t *testing.T) {
	store := memstore.New()
	for _, key := range []string{"en/train-0.parquet", "en/test-0.parquet", "de/train-0.parquet"} {
		store.Set(key, parquetFile(t, "by-datasets"))
	}
	card := func(german string) []byte {
		label := "  features: [{name: label, dtype: {class_label: {names: "
		return []byte("---\nconfigs:\n- {config_name: en, data_files: [{split: train, path: en/train*}, {split: test, path: en/test*}]}\n- {config_name: de, data_files: de/*}\n" +
			"dataset_info:\n- config_name: de\n" + label + german + "}}}]\n---\n")
	}
	store.Set("README.md", card("[Katze, Hund]"))
	for _, c := range []struct {
		opt  Options
		want []string
	}{
		{Options{Config: "de", Name: "de"}, []string{"Katze", "Hund"}},
		{Options{Match: "de/*", Split: AllSplits}, []string{"Katze", "Hund"}}, // the only configuration that has classes
		{Options{Config: "en", Split: "test", Name: "test"}, []string{"cat", "dog"}},
	} {
		if _, err := Run(t.Context(), store, "", c.opt); err != nil {
			t.Fatal(err)
		}
		checkClasses(t, store, c.opt.Name, c.want)
	}
	store.Set("README.md", card("{'1': Hund, '0': Kater}"))
	if rep, err := Run(t.Context(), store, "", Options{Config: "de", Name: "de"}); err != nil || rep.Unchanged {
		t.Errorf("with other names: got %+v, %v, want another index", rep, err)
	}
	checkClasses(t, store, "de", []string{"Kater", "Hund"})
	store.Set("README.md", card("{'7': Hund}"))
	if _, err := Run(t.Context(), store, "", Options{Config: "de", Name: "de"}); err != nil {
		t.Errorf("with a README that cannot be read: %v", err)
	}
	checkClasses(t, store, "de", []string{"cat", "dog"})
}

func checkClasses(t *testing.T, store *memstore.Store, name string, want []string) {
	t.Helper()
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, f := range x.Fields() {
		if f.Name == "label" && !slices.Equal(f.Classes, want) {
			t.Errorf("index %q: got classes %q, want %q", name, f.Classes, want)
		}
	}
}
