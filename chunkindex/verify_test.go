package chunkindex

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// TestVerifiers_LimitMemory checks that concurrently verified chunks of compressed shards fit into
// memory, whatever their length.
func TestVerifiers_LimitMemory(t *testing.T) {
	for _, test := range []struct {
		parallel, chunks int
		most             int64
		want             int
	}{
		{8, 100, 8 << 20, 8},
		{8, 3, 8 << 20, 3},
		{16, 100, 300 << 20, 3},
		{16, 100, layout.MaxChunkSize + 5, 1},
		{16, 0, 1, 1},
		{0, 5, 1, 1},
	} {
		if got := verifiers(test.parallel, test.chunks, test.most); got != test.want {
			t.Errorf("%d in parallel, of %d chunks of %d bytes: got %d, want %d", test.parallel, test.chunks, test.most, got, test.want)
		}
	}
}
