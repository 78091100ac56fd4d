package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestParquetAsPyarrowReadsIt serves files by pyarrow, DuckDB, Polars, fastparquet and Hugging Face's datasets where they lie, and reads
// an epoch of each as Arrow streams and as tars, by what docs/rows.md says: every row comes once, and each of its values is the one
// that pyarrow reads in the file, byte by byte and type by type.
func TestParquetAsPyarrowReadsIt(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "parquet.py", "write", dir)
	store := harness.Open(t, "minio")
	names := []string{"pyarrow", "types", "duckdb", "polars", "datasets", "fastparquet", "encoded"}
	g := serveAll(t, store, store.Objects(t), dir, names...)
	for _, name := range names {
		var told struct {
			Format      string          `json:"format"`
			ContentType string          `json:"content_type"`
			Constants   json.RawMessage `json:"constants"`
		}
		if err := json.Unmarshal(g.MustGet(t, "/v1/datasets/"+name).Body, &told); err != nil {
			t.Fatal(err)
		}
		if told.Format != "parquet" || told.ContentType != "application/vnd.millrace.rows" {
			t.Errorf("%s: got %+v, want Parquet that is answered as rows", name, told)
		}
		for _, form := range []string{"arrow", "tar"} {
			got := library(t, "parquet.py", append([]string{"read", string(told.Constants)}, batchesAs(t, g, name, form)...)...)
			if len(got[name]) == 0 {
				t.Errorf("%s as %s: got no row", name, form)
			}
			same(t, name+" as "+form, want[name], got[name])
		}
	}
	if r := g.Get(t, "/v1/datasets/pyarrow/epochs/0/batches/0?format=jsonl"); r.Status != 400 || !strings.Contains(string(r.Body), "must be one of rows, tar") {
		t.Errorf("JSON Lines of rows: got %d, %s, want it refused by name", r.Status, r.Body)
	}
	if out := harness.MustRun(t, store, "verify", store.Dataset("pyarrow")); !strings.Contains(out, "0 bad") && strings.Contains(out, "bad") {
		t.Errorf("verify: got %s", out)
	}
}

// batchesAs saves the batches of an epoch in a form, and returns them as arguments of a script.
func batchesAs(t *testing.T, g *harness.Gateway, dataset, form string) (named []string) {
	t.Helper()
	dir := t.TempDir()
	for n := 1; len(named) < n; {
		r := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/1/batches/%d?batch_size=16&format=%s", dataset, len(named), form))
		var err error
		if n, err = strconv.Atoi(r.Header.Get("Millrace-Batches")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strconv.Itoa(len(named)))
		if err := os.WriteFile(file, r.Body, 0o644); err != nil {
			t.Fatal(err)
		}
		named = append(named, dataset+"="+file)
	}
	return named
}
