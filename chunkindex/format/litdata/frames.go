package litdata

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
)

// Values of compression_level for zstd frames inside a chunk: frames of several samples, or of one.
const (
	perBatch  = "batch"
	perSample = "sample"
)

// framed reports whether chunks contain zstd frames.
func (c *config) framed() bool { return c.Level != nil && *c.Level != "chunk" }

// decode decodes the frames of a chunk, which follow its tables and are contiguous. The decoded bytes
// are those of the samples.
func decode(ctx context.Context, s offsets.Listed, in format.Ranges) (format.Decoded, error) {
	head := make([]byte, 24)
	if err := in.ReadRange(ctx, 0, head); err != nil {
		return format.Decoded{}, err
	}
	n, begin := binary.LittleEndian.Uint32(head), int64(4)
	if strings.HasPrefix(string(head), "LDFZ01\x00\x00\x01\x00\x00\x00") { // version 1
		n, begin = binary.LittleEndian.Uint32(head[12:]), 24+24*int64(binary.LittleEndian.Uint32(head[20:]))
	}
	if begin += 4 * (int64(n) + 1); uint64(n) != s.Samples || begin > s.Bytes {
		return format.Decoded{}, fmt.Errorf("its head does not describe %d samples, as index.json does: it may be truncated or contain rows of Arrow", s.Samples)
	}
	stored := format.Stored(ctx, in, s.Bytes)
	_, err := stored.Seek(begin, io.SeekStart)
	if err != nil {
		return format.Decoded{}, err
	}
	r, err := codec.NewReader(codec.Zstd, stored)
	return format.Decoded{ReadCloser: r, Codec: codec.Zstd, Frames: r}, err
}
