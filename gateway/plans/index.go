package plans

import (
	"context"
	"encoding/json"
	"io"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// Index provides all data about a dataset, such as *chunkindex.Index. The index of a mixture
// concatenates the indexes of its sources.
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

// Identity identifies the data that an index describes.
type Identity interface {
	Generation() string
	Format() string
	Defaults() chunkindex.Defaults // defaults of plan parameters
}

// Sizes has the sizes of a dataset; lengths are in bytes.
type Sizes interface {
	Samples() uint64
	Chunks() int
	Shards() int
	Bytes() int64
	MaxChunk() int64
	MaxSample() int64
}

// Places locates samples in chunks.
type Places interface {
	First() []uint64           // number of the first sample of each chunk, and total number of samples
	ChunkOf(sample uint64) int // chunk of a sample
	Table(ctx context.Context, chunk int) (*chunkindex.Table, error)
}

// Fetcher loads the data that Places needs for several samples together.
type Fetcher interface {
	InPart() bool // reports whether Fetch is needed
	Fetch(ctx context.Context, samples []uint64) error
}

// Layout locates chunks in shards.
type Layout interface {
	Chunk(i int) chunkindex.Chunk
	Extents(i int) []chunkindex.Extent
	Shard(i int) chunkindex.Shard
}

// Texts provides the keys and parts of samples by chunk, and the classes of pictures in class
// folders.
type Texts interface {
	ClassOf(sample uint64) (class int, ok bool)
	Names(ctx context.Context, chunk int) (*chunkindex.Names, error)
	Parts(ctx context.Context, chunk int) (*chunkindex.Parts, error)
	PartNames(ctx context.Context, chunk int) ([]string, error)
}

// Framing describes the bytes around samples in the dataset's own format. It is nil if the sources
// of a mixture differ.
type Framing interface {
	Framing() format.Framing
	Native() string // name of the form
	Constants() json.RawMessage
}

// Types describes the content of samples' parts. It has no fields if the content is unknown, or if
// the sources of a mixture differ.
type Types interface {
	Fields() []format.Field
	OtherParts() bool                 // samples have parts that Fields does not list
	InClassFolders() bool             // reports whether Texts.ClassOf returns the class of every sample
	ClassSamples() []uint64           // samples per class; nil: unknown
	ClassRuns() []chunkindex.ClassRun // class of each sample; nil: unknown
}

// Keys finds samples by key, and lists the keys of a chunk in stored order without caching them.
type Keys interface {
	Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error)
	Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error
}

// Object is the stored index object.
type Object interface {
	io.ReaderAt
	Size() int64      // in bytes
	MeanParts() int64 // upper estimate of the mean number of parts per sample
}
