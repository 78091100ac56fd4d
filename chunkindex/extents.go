package chunkindex

import (
	"github.com/millrace-data/millrace/chunkindex/codec"
)

// ExtentCount returns the number of extents of chunk i, without listing them.
func (x *Index) ExtentCount(i int) int {
	from, to := x.extents.of(i)
	return int(to - from)
}

// Locate returns the stored location of the sample at an offset of the chunk. The returned extent
// begins at the sample and ends with the stored extent that holds it. Compressed samples have no
// individual location, so Locate returns the chunk's first whole extent.
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
