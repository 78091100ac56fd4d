package plans

import (
	"context"
	"encoding/json"
	"io"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// Index is all that is asked about a dataset. *chunkindex.Index is one. The index of a mixture lays the indexes of its
// sources side by side.
type Index interface {
	Identity
	Sizes
	Places
	Layout
	Fetcher
	Texts
	Framing
	Types
	Keys
	Object
}

// Identity says which data an index describes.
type Identity interface {
	Generation() string
	Format() string
	Defaults() chunkindex.Defaults // of the parameters of a plan
}

// Sizes says how large a dataset is. Lengths are in bytes.
type Sizes interface {
	Samples() uint64
	Chunks() int
	Shards() int
	Bytes() int64
	MaxChunk() int64
	MaxSample() int64
}

// Places says where samples lie in chunks.
type Places interface {
	First() []uint64           // the number of the first sample of each chunk, and of all samples
	ChunkOf(sample uint64) int // the chunk of a sample
	Table(ctx context.Context, chunk int) (*chunkindex.Table, error)
}

// Fetcher brings what Places will be asked of some samples, all at once.
type Fetcher interface {
	InPart() bool // Fetch has something to do
	Fetch(ctx context.Context, samples []uint64) error
}

// Layout says where chunks lie in shards.
type Layout interface {
	Chunk(i int) chunkindex.Chunk
	Extents(i int) []chunkindex.Extent
	Shard(i int) chunkindex.Shard
}

// Texts tells the keys and the parts of samples, chunk by chunk, and the classes of pictures in class folders.
type Texts interface {
	ClassOf(sample uint64) (class int, ok bool)
	Names(ctx context.Context, chunk int) (*chunkindex.Names, error)
	Parts(ctx context.Context, chunk int) (*chunkindex.Parts, error)
	PartNames(ctx context.Context, chunk int) ([]string, error)
}

// Framing says what bytes of a dataset's own format stand around samples. It is nil where sources of a mixture differ.
type Framing interface {
	Framing() format.Framing
	Native() string // name of the form
	Constants() json.RawMessage
}

// Types says what the parts of samples hold. It has no fields where that is not known, or where sources of a mixture differ.
type Types interface {
	Fields() []format.Field
	OtherParts() bool                 // samples have parts that the fields do not list
	InClassFolders() bool             // Texts.ClassOf knows the class of every sample
	ClassSamples() []uint64           // of each class; nil: unknown
	ClassRuns() []chunkindex.ClassRun // the class of each sample; nil: unknown
}

// Keys finds a sample by its key, and tells the keys of a chunk in stored order, without keeping them.
type Keys interface {
	Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error)
	Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error
}

// Object is the stored index itself.
type Object interface {
	io.ReaderAt
	Size() int64      // in bytes
	MeanParts() int64 // about how many parts a sample has, at most
}
