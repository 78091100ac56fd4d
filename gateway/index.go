package gateway

import (
	"context"
	"encoding/json"
	"io"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// Index is all that a gateway asks about a dataset. *chunkindex.Index is one; the index of a mixture, which lays those of its
// sources side by side, is the other.
type Index interface {
	Generation() string
	Format() string
	Framing() format.Framing
	Constants() json.RawMessage
	Native() string
	Defaults() chunkindex.Defaults

	Samples() uint64
	Bytes() int64
	Chunks() int
	Shards() int
	MaxChunk() int64
	MaxSample() int64

	First() []uint64
	ChunkOf(sample uint64) int
	Chunk(i int) chunkindex.Chunk
	Extents(i int) []chunkindex.Extent
	Shard(i int) chunkindex.Shard
	Table(ctx context.Context, chunk int) (*chunkindex.Table, error)
	Names(ctx context.Context, chunk int) (*chunkindex.Names, error)
	Parts(ctx context.Context, chunk int) (*chunkindex.Parts, error)
	PartNames(ctx context.Context, chunk int) ([]string, error)
	Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error)

	io.ReaderAt // the index object itself
	Size() int64
}
