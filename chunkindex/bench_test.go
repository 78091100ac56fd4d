package chunkindex_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func BenchmarkBuild(b *testing.B) {
	store := memstore.New()
	d := indextest.Write(b, store, indextest.Spec{Sizes: indextest.Sizes(1000, 110_000), Shards: 4})
	bytes := 0
	for _, body := range d.Bodies {
		bytes += len(body)
	}
	b.SetBytes(int64(bytes))
	chunk := int64(8 << 20)
	for b.Loop() {
		chunk++ // another chunk size, so that nothing is reused
		if _, err := chunkindex.Build(b.Context(), store, "", chunkindex.BuildOptions{ChunkSize: chunk, Parallel: 2}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	d := indextest.Make(b, memstore.New(), indextest.Spec{Sizes: indextest.Sizes(2000, 4000), Build: chunkindex.BuildOptions{ChunkSize: 1 << 20}})
	i := 0
	for b.Loop() {
		if _, err := d.Index.Table(b.Context(), i%d.Index.Chunks()); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkLookup(b *testing.B) {
	d := indextest.Make(b, memstore.New(), indextest.Spec{Sizes: indextest.Sizes(20000, 100), Build: chunkindex.BuildOptions{ChunkSize: 1 << 20}})
	i := 0
	for b.Loop() {
		if _, ok, err := d.Index.Lookup(b.Context(), d.Keys[i*7919%len(d.Keys)], ""); err != nil || !ok {
			b.Fatal(ok, err)
		}
		i++
	}
}
