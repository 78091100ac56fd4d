package chunkindex

import (
	"github.com/millrace-data/millrace/chunkindex/codec"
)

// ExtentCount returns how many extents chunk i has, without listing them.
func (x *Index) ExtentCount(i int) int {
	from, to := x.extents.of(i)
	return int(to - from)
}

// Locate says where a sample of a chunk lies in the store, from its offset in the chunk and the chunk's extents: the extent that holds it, from there on.
// A sample of a compressed chunk has no place of its own there: it is the whole extent, the first one where there are several.
func Locate(c Chunk, extents []Extent, offset int64) Extent {
	if c.Codec != codec.None {
		return extents[0]
	}
	at := 0
	for ; at < len(extents)-1 && offset >= extents[at].Length; at++ {
		offset -= extents[at].Length
	}
	e := extents[at]
	return Extent{Shard: e.Shard, Offset: e.Offset + offset, Length: e.Length - offset}
}
