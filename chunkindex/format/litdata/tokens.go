package litdata

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
)

const tokensLoader = "TokensLoader"

// ofTokens reports whether items are sequences of tokens, which TokensLoader concatenates and cuts
// into blocks. If the index does not name the loader, a single leaf without a header implies
// TokensLoader.
func (c *config) ofTokens() bool {
	return c.ItemLoader == tokensLoader ||
		c.ItemLoader == "" && len(c.DataFormat) == 1 && strings.HasPrefix(c.DataFormat[0], "no_header_tensor")
}

// blocks describes the samples of a dataset of tokens. It is zero for other items.
type blocks struct {
	tokens int64 // tokens in a sample: TokensLoader's block_size
	bytes  int64
}

// newBlocks returns blocks of sequence tokens plus the next token, which is the last training
// target. It derives the size of a token from the chunks' index entries.
func newBlocks(chunks []chunk, sequence int64) (blocks, error) {
	if sequence <= 0 {
		return blocks{}, errors.New("the index does not give the number of tokens per sample: set --sequence-length to the block_size of TokensLoader minus 1")
	}
	width := int64(0)
	for _, k := range chunks {
		if k.Samples < 0 || k.Samples > offsets.MaxSamples || k.Bytes < 0 || k.Dim == nil || *k.Dim < 0 {
			return blocks{}, fmt.Errorf("chunk %.200q: chunk_bytes, chunk_size or dim is invalid", k.Filename)
		}
		data := k.Bytes - 4*(k.Samples+2) // length without the offset table
		if *k.Dim == 0 && data == 0 {
			continue
		}
		if *k.Dim == 0 || data <= 0 || data%*k.Dim != 0 || width != 0 && data / *k.Dim != width {
			return blocks{}, fmt.Errorf("chunk %.200q: %d tokens cannot have %d bytes", k.Filename, *k.Dim, data)
		}
		width = data / *k.Dim
	}
	if width == 0 || width > 16 {
		return blocks{}, fmt.Errorf("tokens of %d bytes are not supported", width)
	}
	if sequence >= format.MaxSample/width {
		return blocks{}, fmt.Errorf("a sample of %d tokens of %d bytes each exceeds the limit of %d bytes", sequence+1, width, format.MaxSample)
	}
	return blocks{tokens: sequence + 1, bytes: (sequence + 1) * width}, nil
}

// leftOut returns the number of a chunk's tokens outside of its blocks. newBlocks has already
// validated the index entries.
func (b blocks) leftOut(s offsets.Shard, found uint64) int64 {
	data := s.Bytes - 4*(int64(s.Samples)+2) // length without the offset table
	return max(0, data/(b.bytes/b.tokens)-int64(found)*b.tokens)
}
