package chunkindex

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// decoding holds the parameters that a chunk's codec needs in addition to the stored bytes.
type decoding []byte

// Bytes returns the memory size of the parameters.
func (d decoding) Bytes() int64 { return int64(cap(d)) + 64 }

// Decode decompresses a chunk from the stored bytes of its extent into dst, which has the chunk's
// length. It returns ErrCorrupt for bytes that fail to decode; other errors come from reading the
// index. Decode uses the memory behind stored, up to its capacity, as workspace.
// codec.Codec.Workspace returns the total size needed, including the stored bytes.
func (x *Index) Decode(ctx context.Context, chunk int, stored, dst []byte) error {
	c := x.Chunk(chunk)
	var params decoding
	if c.Codec.Described() {
		var err error
		params, err = detail(ctx, x, layout.SecDecoding, chunk, func(b []byte) (decoding, error) { return b, nil })
		if err != nil {
			return err
		}
	}
	if err := codec.Decode(c.Codec, params, stored, c.Skip, dst); err != nil {
		return fmt.Errorf("chunk %d: %w: %w", chunk, ErrCorrupt, err)
	}
	return nil
}
