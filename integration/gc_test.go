package integration_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestGC_AsksOnATerminal deletes an old generation only after the answer y.
func TestGC_AsksOnATerminal(t *testing.T) {
	store := packed(t, "dir")
	address := store.Dataset(dataset)
	harness.MustRun(t, store, "index", address, "--batch-size", "7")
	generations := func() int {
		indexes, err := filepath.Glob(filepath.Join(strings.TrimPrefix(address, "file://"), ".millrace", "index", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(indexes)
	}
	if n := generations(); n != 2 {
		t.Fatalf("got %d generations before gc, want 2", n)
	}
	for _, c := range []struct {
		answer string
		want   int
	}{{"\r", 2}, {"n\r", 2}, {"Yes please\r", 2}, {"y\r", 1}} {
		x := inTerminal(t, 100, 30, nil, "gc", address, "--grace", "0s")
		x.shows("Delete these objects? [y/N]")
		x.press(c.answer)
		x.exits(0)
		if n := generations(); n != c.want {
			t.Errorf("after the answer %q: got %d generations, want %d\n%s", c.answer, n, c.want, x.raw)
		}
	}
}
