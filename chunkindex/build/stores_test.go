package build

import (
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// indexedTars returns a store with two tar shards and their index.
func indexedTars(t testing.TB) (*memstore.Store, Report) {
	t.Helper()
	store := memstore.New()
	shards.Tars(t, store)
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// indexedLines returns a store with two shards of this number of lines each, and an index with many
// chunks.
func indexedLines(t testing.TB, lines int) (*memstore.Store, Report) {
	t.Helper()
	store := memstore.New()
	shards.Lines(store, lines)
	rep, err := Run(t.Context(), store, "", Options{ChunkSize: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}
