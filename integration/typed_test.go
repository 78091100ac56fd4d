package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
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
			got := library(t, "typed.py", append([]string{c.kind, string(told.Constants)}, answersOf(t, g, c.kind)...)...)
			same(t, c.kind, want, got[c.kind])
		})
	}
}
