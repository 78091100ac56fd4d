package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Defaults are the plan parameters stored in the index, so that no release of the
// program changes what a URL that leaves them out means.
type Defaults struct {
	Shuffle   string `json:"shuffle"`
	Window    uint64 `json:"window"`
	Seed      uint64 `json:"seed,string"`
	BatchSize uint64 `json:"batch_size"`
	Tail      string `json:"tail"`
}

// Index is an opened, immutable index: one generation of one data set. Safe for concurrent use.
type Index struct{}

// Shard is one stored object, with the version it is bound to.
type Shard struct {
	Key       string // relative to the data set's prefix
	Size      int64
	ETag      string
	VersionID string
}

// Extent is a contiguous range of one shard.
type Extent struct {
	Shard  int
	Offset int64
	Length int64
}

// Chunk is the resident description of a chunk.
type Chunk struct {
	Length  int64    // decoded bytes
	Samples uint32   // number of samples
	First   uint64   // number of its first sample in stored order
	CRC32C  uint32   // of the decoded bytes
	Digest  [32]byte // SHA-256 of the decoded bytes: the cache's key
}

// Table is the sample table of one chunk: offsets and digests, relative to the chunk's decoded bytes.
type Table struct {
	Offset, Length, CRC32C []uint32
}

// Bytes returns the memory that the table holds.
func (t *Table) Bytes() int64 { return int64(12*cap(t.Offset)) + 128 }

// TableCache keeps sample tables in memory, under somebody's budget, and may drop any of them at any time.
type TableCache interface {
	Get(chunk int) (*Table, bool)
	Add(chunk int, t *Table)
}

// Framing gives the bytes around and between the samples of a batch in the data set's own
// format, from the samples' lengths alone. Tar: 1,024 zero bytes after.
type Framing interface {
	ContentType() string
	// Frame returns the bytes before the first sample and after the last one.
	Frame(lengths []uint32) (before, after []byte)
}

func (x *Index) Generation() string                      { return "" } // lower-case hex of the SHA-256 of content and layout
func (x *Index) Format() string                          { return "" } // "tar"
func (x *Index) Framing() Framing                        { return nil }
func (x *Index) Defaults() Defaults                      { return Defaults{} }
func (x *Index) Samples() uint64                         { return 0 }
func (x *Index) Bytes() int64                            { return 0 } // sum of all samples' lengths
func (x *Index) Chunks() int                             { return 0 }
func (x *Index) Shards() int                             { return 0 }
func (x *Index) First() []uint64                         { return nil } // prefix sums, len Chunks()+1, as shuffle.NewPlan wants them; shared
func (x *Index) Chunk(i int) Chunk                       { return Chunk{} }
func (x *Index) Extents(i int) []Extent                  { return nil } // tar: exactly one
func (x *Index) Shard(i int) Shard                       { return Shard{} }
func (x *Index) MaxChunk() int64                         { return 0 } // decoded length of the largest chunk
func (x *Index) MaxSample() int64                        { return 0 }
func (x *Index) Resident() int64                         { return 0 }      // bytes held in memory, for the budget
func (x *Index) ChunkOf(sample uint64) int               { return 0 }      // binary search in First
func (x *Index) Size() int64                             { return 0 }      // bytes of the index object itself
func (x *Index) ReadAt(p []byte, off int64) (int, error) { return 0, nil } // the index object itself, as it is stored

// Table returns the sample table of a chunk, from the cache or from the local index file, checked.
func (x *Index) Table(ctx context.Context, chunk int) (*Table, error) { return nil, nil }

// Key returns a sample's key. Lookup is its inverse; ok is false for a key that no sample has.
func (x *Index) Key(ctx context.Context, sample uint64) (string, error) { return "", nil }
func (x *Index) Lookup(ctx context.Context, key string) (sample uint64, ok bool, err error) {
	return 0, false, nil
}

// Close gives back the local file.
func (x *Index) Close() error { return nil }

// OpenOptions says where an opened index keeps what it needs.
type OpenOptions struct {
	Generation string     // empty: the one that the pointer names
	CacheDir   string     // the index is copied here and read by position; empty: a temporary file
	Tables     TableCache // nil: every Table call reads the file
	MaxBytes   int64      // refuse an index larger than this; 0: the documented limits
}

// Open reads the pointer of a data set, fetches the index object it names to a local file, checks
// it from end to end, and opens it. The store is rooted at the data set's prefix by the caller through prefix, which
// is empty or ends in a slash.
func Open(ctx context.Context, store objstore.Store, prefix string, opt OpenOptions) (*Index, error) {
	return nil, nil
}
