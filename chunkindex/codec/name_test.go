package codec_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// TestOf_LitDataNames checks the names of compressed LitData chunks, which end in LitData's own
// suffix.
func TestOf_LitDataNames(t *testing.T) {
	type named struct {
		codec codec.Codec
		bare  string
	}
	for key, want := range map[string]named{
		"d/chunk-0-0.zstd.bin": {codec.Zstd, "d/chunk-0-0.bin"}, "chunk-0-0.zstd:5.bin": {codec.Zstd, "chunk-0-0.bin"},
		"chunk-0-0.bin": {codec.None, "chunk-0-0.bin"}, "a.zstdx.bin": {codec.None, "a.zstdx.bin"}, "a.zstd:/b.bin": {codec.None, "a.zstd:/b.bin"},
	} {
		if c, bare := codec.Of(key); c != want.codec || bare != want.bare {
			t.Errorf("%s: got %v, %s, want %v, %s", key, c, bare, want.codec, want.bare)
		}
	}
}
