package body

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// layOutNPY lays out an .npy header, followed by samples that form a flat array.
func layOutNPY(ctx context.Context, b *Body, a Answer) error {
	dtype, shape := a.Dataset.Index.Framing().(format.Array).Item()
	b.put(framing.NPYHeader(dtype, uint64(len(b.samples)), shape)...)
	return layOutNative(ctx, b, a)
}
