package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Of a budget only a part is for chunks: one that just holds the window reads sample by sample, which is slow.
func TestServeWarnsWhenTheWindowDoesNotFit(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for i := range 24 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".bin"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "pack", dir, data)
	ok(t, "index", data, "--batch-size", "1")
	for size, want := range map[string]bool{"32MiB": true, "48MiB": false} {
		o := ok(t, "serve", "--dataset", "d="+data, "--check", "--cache-size", size)
		if got := strings.Contains(o.stderr, "smaller than the dataset's order wants"); got != want {
			t.Errorf("%s: got a warning %v, want %v: %s", size, got, want, o.stderr)
		}
	}
}
