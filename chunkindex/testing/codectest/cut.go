package codectest

import (
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// PackAt splits data at the offsets in cuts and compresses each piece into its own frame.
func PackAt(c codec.Codec, data []byte, cuts ...int) []byte {
	var pieces [][]byte
	at := 0
	for _, cut := range append(slices.Sorted(slices.Values(cuts)), len(data)) {
		pieces = append(pieces, data[at:cut])
		at = cut
	}
	return Pack(c, pieces...)
}
