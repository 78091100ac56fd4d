package chunkindex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// RemoveCopies removes the copies that were not opened for a day, and no other files.
func TestRemoveCopies(t *testing.T) {
	store, dir := memstore.New(), t.TempDir()
	d := indextest.Make(t, store, indextest.Spec{Sizes: indextest.Sizes(60, 1000), Shards: 4})
	opens := func() {
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
	}
	opens()
	kept, unused := strings.Repeat("a", 64), strings.Repeat("b", 64)
	old := []string{kept + ".index", unused + ".index", "millrace-index-123", "notes.index", "losses", d.Report.Generation + ".index"}
	for _, name := range old {
		path, then := filepath.Join(dir, name), time.Now().Add(-25*time.Hour)
		f, err := os.OpenFile(path, os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
			err = os.Chtimes(path, then, then)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "millrace-index-456"), nil, 0o600); err != nil { // a copy that is being written
		t.Fatal(err)
	}
	opens() // marks the copy as used
	removed, err := chunkindex.RemoveCopies(dir, 24*time.Hour, func(generation string) bool { return generation == kept })
	if err != nil || removed != 2 {
		t.Errorf("got %d removed, %v, want 2", removed, err)
	}
	for _, name := range append(old, "millrace-index-456") {
		_, err := os.Stat(filepath.Join(dir, name))
		if want := name == unused+".index" || name == "millrace-index-123"; os.IsNotExist(err) != want {
			t.Errorf("%s: got %v, want it removed: %v", name, err, want)
		}
	}
	if removed, err := chunkindex.RemoveCopies(filepath.Join(dir, "none"), 0, nil); err != nil || removed != 0 {
		t.Errorf("without a directory: got %d, %v", removed, err)
	}
}
