package chunkindex_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func BenchmarkTable(b *testing.B) {
	d := indextest.Make(b, memstore.New(), indextest.Spec{Sizes: indextest.Sizes(2000, 4000), Build: build.Options{ChunkSize: 1 << 20}})
	i := 0
	for b.Loop() {
		if _, err := d.Index.Table(b.Context(), i%d.Index.Chunks()); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkLookup(b *testing.B) {
	d := indextest.Make(b, memstore.New(), indextest.Spec{Sizes: indextest.Sizes(20000, 100), Build: build.Options{ChunkSize: 1 << 20}})
	i := 0
	for b.Loop() {
		if _, ok, err := d.Index.Lookup(b.Context(), d.Keys[i*7919%len(d.Keys)], ""); err != nil || !ok {
			b.Fatal(ok, err)
		}
		i++
	}
}
