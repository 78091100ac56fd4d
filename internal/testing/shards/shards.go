// Package shards writes small datasets to stores for tests, and reads the objects that Millrace
// stores next to them. It does not import chunkindex, so that the tests of those packages can use
// it.
package shards

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// Photos stores n loose objects and returns their contents by key.
func Photos(store *memstore.Store, n int) map[string][]byte {
	all := map[string][]byte{}
	for i := range n {
		key := fmt.Sprintf("dir.%d/photo-%05d.jpg", i%3, i)
		all[key] = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i%50)
		store.Set(key, all[key])
	}
	return all
}

// Copy returns a copy of a store, without faults.
func Copy(store *memstore.Store) *memstore.Store {
	other := memstore.New()
	for _, key := range store.Keys() {
		b, _ := store.Bytes(key)
		other.Set(key, b)
	}
	return other
}

// Bytes returns an object, and fails the test if it does not exist.
func Bytes(t *testing.T, store *memstore.Store, key string) []byte {
	t.Helper()
	b, ok := store.Bytes(key)
	if !ok {
		t.Fatalf("no object %s", key)
	}
	return b
}

// Binding returns the only binding in a store.
func Binding(t *testing.T, store *memstore.Store) []byte {
	t.Helper()
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, ".millrace/binding/") {
			b, _ := store.Bytes(k)
			return b
		}
	}
	t.Fatal("no binding")
	return nil
}

// Tars stores two tar shards with three samples in total.
func Tars(t testing.TB, store *memstore.Store) {
	t.Helper()
	for i, names := range [][]string{{"x.jpg", "x.cls", "y.jpg"}, {"dir/z"}} {
		store.Set([]string{"a.tar", "b.tar"}[i], TarOf(t, names...))
	}
}

// TarOf returns a tar with members of these names. The content of each member is its name.
func TarOf(t testing.TB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, n := range names {
		if err := w.WriteHeader(&tar.Header{Name: n, Size: int64(len(n)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Lines stores two shards of JSON Lines, each with the given number of lines.
func Lines(store *memstore.Store, lines int) {
	for shard := range 2 {
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "{\"n\":%d,\"text\":%q}\n", i, strings.Repeat("x", (i*7+shard)%60))
		}
		store.Set(fmt.Sprintf("c-%d.jsonl", shard), []byte(b.String()))
	}
}
