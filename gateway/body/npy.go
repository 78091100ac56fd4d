package body

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// layNPY lays out an .npy header, followed by samples that form a flat array.
func layNPY(ctx context.Context, b *Body, a Answer) error {
	dtype, shape := a.Dataset.Index.Framing().(format.Array).Item()
	b.put(framing.NPYHeader(dtype, uint64(len(b.samples)), shape)...)
	return layNative(ctx, b, a)
}
