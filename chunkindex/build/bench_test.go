package build_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
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
		chunk++ // a different chunk size prevents reuse
		if _, err := build.Run(b.Context(), store, "", build.Options{ChunkSize: chunk, Parallel: 2}); err != nil {
			b.Fatal(err)
		}
	}
}
