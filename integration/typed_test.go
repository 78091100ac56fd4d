package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestTypedColumnsAreWhatTheLibrariesRead writes shards with MosaicML Streaming and with LitData,
// requests an epoch as Arrow from a gateway, and reads its columns with pyarrow by their types
// only. The values equal those that the libraries read.
func TestTypedColumnsAreWhatTheLibrariesRead(t *testing.T) {
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	for _, c := range []struct{ script, kind string }{{"mds.py", "mds"}, {"lit.py", "lit"}} {
		t.Run(c.kind, func(t *testing.T) {
			dir := t.TempDir()
			want := library(t, c.script, "write", dir)["plain"]
			if err := os.Rename(filepath.Join(dir, "plain"), filepath.Join(dir, c.kind)); err != nil {
				t.Fatal(err)
			}
			g := serveAll(t, store, objects, dir, c.kind)
			var told struct {
				Constants json.RawMessage `json:"constants"`
			}
			if err := json.Unmarshal(g.MustGet(t, "/v1/datasets/"+c.kind).Body, &told); err != nil {
				t.Fatal(err)
			}
			got := library(t, "typed.py", append([]string{c.kind, string(told.Constants)}, asArrow(t, g, c.kind)...)...)
			same(t, c.kind, want, got["typed"])
		})
	}
}

// asArrow saves the batches of an epoch as files, and returns them as arguments of typed.py and
// schemas.py.
func asArrow(t *testing.T, g *harness.Gateway, dataset string) (named []string) {
	t.Helper()
	dir := t.TempDir()
	for n := 1; len(named) < n; {
		r := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/1/batches/%d?batch_size=7&format=arrow", dataset, len(named)))
		var err error
		if n, err = strconv.Atoi(r.Header.Get("Millrace-Batches")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strconv.Itoa(len(named)))
		if err := os.WriteFile(file, r.Body, 0o644); err != nil {
			t.Fatal(err)
		}
		named = append(named, "typed="+file)
	}
	return named
}

// TestTypesArePyarrows serves files that pyarrow, Polars, pandas and DuckDB have written: Parquet
// with every logical type, and Arrow files and streams with dictionaries. The columns of a batch
// have the same values and types that pyarrow reads from the file, except for the types that
// docs/spec/rows.md lists.
func TestTypesArePyarrows(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "schemas.py", "write", dir)
	store := harness.Open(t, "minio")
	var names []string
	for name := range want {
		names = append(names, name)
	}
	g := serveAll(t, store, store.Objects(t), dir, names...)
	for _, name := range names {
		got := library(t, "schemas.py", append([]string{"read"}, asArrow(t, g, name)...)...)
		same(t, name, want[name], got["typed"])
	}
}
