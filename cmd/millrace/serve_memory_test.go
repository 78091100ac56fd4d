package main

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestServe_WarnsIfWindowDoesNotFit: chunks may use only a part of the budget. If the budget is
// just as large as the window, the gateway reads single samples, which is slow.
func TestServe_WarnsIfWindowDoesNotFit(t *testing.T) {
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
		if got := strings.Contains(o.stderr, "smaller than the dataset's order requires"); got != want {
			t.Errorf("%s: got a warning %v, want %v: %s", size, got, want, o.stderr)
		}
	}
}

// TestServe_CountsDecodingMemory: a shard that is compressed as a whole is one chunk, and is
// decoded in memory that is reserved when its dataset is opened. Without that memory the gateway
// would reject requests later.
func TestServe_CountsDecodingMemory(t *testing.T) {
	data := t.TempDir()
	f, err := os.Create(filepath.Join(data, "a.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 { // 4 MB, half of that when compressed
		_, _ = fmt.Fprintf(w, "{\"a\":\"%016x%016x\"}\n", random.Uint64(), random.Uint64())
	}
	if w.Close() != nil || f.Close() != nil {
		t.Fatal("the shard is not written")
	}
	ok(t, "index", data)
	o := millrace(t, nil, "serve", "--dataset", "d="+data, "--check", "--cache-size", "12MiB")
	if want := "cache-size: 12 MiB is too small"; o.code != exitUsage || !strings.Contains(o.stderr, want) {
		t.Errorf("12 MiB: got %d %s, want 2 and %q", o.code, o.stderr, want)
	}
	ok(t, "serve", "--dataset", "d="+data, "--check", "--cache-size", "24MiB")
}
