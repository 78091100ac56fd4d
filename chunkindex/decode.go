package chunkindex

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// decoding are the parameters of a chunk, which are what its codec needs beside the stored bytes.
type decoding []byte

// Bytes returns the memory that the parameters hold.
func (d decoding) Bytes() int64 { return int64(cap(d)) + 64 }

// Decode fills dst, which is as long as the chunk, with the decoded bytes of a compressed chunk, from the stored bytes of its extent. Bytes
// that do not decode are ErrCorrupt; another error is one of reading the index. The memory behind stored, up to its capacity, is
// used to work in: codec.Codec.Beside says how much of it there should be, with the stored bytes.
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
