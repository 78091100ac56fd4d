package integration_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestLayouts serves data sets in the layouts of common writers, and compares every value with those
// that the writer's own reader finds.
func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "layouts.py", "write", dir)
	names := slices.Sorted(maps.Keys(want))
	store := harness.Open(t, "minio")
	g := serveAll(t, store, store.Objects(t), dir, names...)
	got := library(t, "layouts.py", append([]string{"read", g.URL}, names...)...)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
