package chunkindex

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

// Chunk is the resident description of a chunk.
type Chunk struct {
	Length  int64       // decoded bytes
	Samples uint32      // number of samples
	First   uint64      // number of its first sample in stored order
	CRC32C  uint32      // of the decoded bytes
	Digest  [32]byte    // SHA-256 of the decoded bytes: the cache's key
	Codec   codec.Codec // how its bytes are compressed; with any but codec.None its extents are whole frames, or what is read of them
	Skip    int64       // decoded bytes that its frames hold before the chunk's first one; 0 with codec.None
	Stored  int64       // sum of its extents' lengths; Length with codec.None
}

// Cached is what an index has read of a chunk: its sample table, its names, its parts or what its decoding needs.
type Cached interface {
	Bytes() int64 // that it holds in memory
}

// CacheKey names something that an index has read of a chunk.
type CacheKey struct{ Section, Chunk int }

// TableCache keeps what was read of chunks in memory, under somebody's budget, and may drop any of it at any time.
type TableCache interface {
	Get(key CacheKey) (Cached, bool)
	Add(key CacheKey, c Cached)
	Close() // drops all that was added: the index is closed
}

// Index is an opened, immutable index: one generation of one dataset. Safe for concurrent use.
type Index struct {
	file       *os.File
	pages      *pages
	size       int64
	generation string
	head       layout.Header
	meta       layout.Meta
	shards     []Shard
	tables     TableCache
	links      bool
	data       string

	name    string // of the index whose pointer was read; empty: the default one
	binding string // key of the object that names the versions of the shards

	// One entry a chunk, in flat arrays: 60 bytes.
	first   []uint64
	hashes  [][32]byte
	crcs    []uint32
	lengths []uint32
	extents extents
	packed  []compression // nil: no chunk is compressed

	maxChunk int64
	framing  format.Framing
}

// compression is how one chunk is compressed.
type compression struct {
	codec codec.Codec
	skip  uint32
}

// extents of all chunks. Where each chunk has exactly one, of its own length, that is not written down.
type extents struct {
	first  []uint64 // nil: chunk i has extent i
	shard  []uint32
	offset []int64
	length []int64 // nil: the chunk's; compressed chunks have lengths of their own
}

// Generation names this version of content and layout: the lower-case hex SHA-256 of the index's header, which holds a digest of all
// the rest.
func (x *Index) Generation() string { return x.generation }

// Format is the name of the shards' format: "tar".
func (x *Index) Format() string { return x.meta.Format }

// Framing is that of batches in the dataset's own format; nil for a format that has none of its own, whose batches
// are framed as Native says.
func (x *Index) Framing() format.Framing { return x.framing }

// Constants are those of the dataset that its framing was made of; nil: the format has none.
func (x *Index) Constants() json.RawMessage { return x.meta.Framing }

// Fields says what the parts of samples hold; nil where it is not known.
func (x *Index) Fields() []format.Field {
	if x.meta.Classes != nil {
		return []format.Field{{Name: ClassPart, Encoding: format.Decimal, Type: "int64", Classes: x.meta.Classes}}
	}
	return format.FieldsOf(x.framing)
}

// OtherParts reports whether samples have parts that Fields does not list: pictures beside their classes.
func (x *Index) OtherParts() bool { return x.meta.Classes != nil }

// Native names the form of a batch that needs no other name: the dataset's format, or "tar" for one without a framing of its own.
func (x *Index) Native() string {
	if x.framing == nil {
		return framing.Tar
	}
	return x.meta.Format
}

// Links says that the current index was made of a directory whose links were followed out of it.
func (x *Index) Links() bool { return x.links }

// Data is the address of the shards as they were indexed, of an index that does not lie beside them.
func (x *Index) Data() string { return x.data }

// Meta is what the index stores of the dataset as a whole.
func (x *Index) Meta() layout.Meta { return x.meta }

// Defaults are the plan parameters stored in the index.
func (x *Index) Defaults() Defaults { return x.meta.Defaults }

// Samples is the number of samples.
func (x *Index) Samples() uint64 { return x.head.Samples }

// Bytes is the sum of all samples' lengths.
func (x *Index) Bytes() int64 { return x.head.Bytes }

// Chunks is the number of chunks.
func (x *Index) Chunks() int { return len(x.lengths) }

// Shards is the number of shards.
func (x *Index) Shards() int { return len(x.shards) }

// First returns the prefix sums of the chunks' sample counts, Chunks()+1 of them. The slice is shared and must not change.
func (x *Index) First() []uint64 { return x.first }

// Chunk describes chunk i.
func (x *Index) Chunk(i int) Chunk {
	c := Chunk{
		Length: int64(x.lengths[i]), Samples: uint32(x.first[i+1] - x.first[i]), First: x.first[i],
		CRC32C: x.crcs[i], Digest: x.hashes[i], Stored: int64(x.lengths[i]),
	}
	if c.Codec = x.Codec(i); c.Codec != codec.None {
		c.Skip = int64(x.packed[i].skip)
		from, to := x.extents.of(i)
		c.Stored = 0
		for _, n := range x.extents.length[from:to] {
			c.Stored += n
		}
	}
	return c
}

// Length returns the decoded bytes of chunk i.
func (x *Index) Length(i int) int64 { return int64(x.lengths[i]) }

// Codec returns how the bytes of chunk i are compressed.
func (x *Index) Codec(i int) codec.Codec {
	if x.packed == nil {
		return codec.None
	}
	return x.packed[i].codec
}

// of returns the numbers of the extents of chunk i: from the first one to before the second one.
func (e *extents) of(i int) (from, to uint64) {
	if e.first == nil {
		return uint64(i), uint64(i) + 1
	}
	return e.first[i], e.first[i+1]
}

// Extents says where chunk i lies: in one extent; in several where a sample is an object, which are whole objects in stored order, or where
// columns are left out of its frames.
func (x *Index) Extents(i int) []Extent {
	e := &x.extents
	lo, hi := e.of(i)
	out := make([]Extent, 0, hi-lo)
	for j := lo; j < hi; j++ {
		length := int64(x.lengths[i])
		if e.length != nil {
			length = e.length[j]
		}
		out = append(out, Extent{Shard: int(e.shard[j]), Offset: e.offset[j], Length: length})
	}
	return out
}

// ShardTable describes all shards. The slice is shared and must not change.
func (x *Index) ShardTable() []Shard { return x.shards }

// Shard describes shard i and the version it is bound to.
func (x *Index) Shard(i int) Shard { return x.shards[i] }

// MaxChunk is the length of the largest chunk.
func (x *Index) MaxChunk() int64 { return x.maxChunk }

// MaxSample is the length of the largest sample.
func (x *Index) MaxSample() int64 { return x.head.Longest }

// Resident is the number of bytes held in memory, for the budget.
func (x *Index) Resident() int64 {
	e := &x.extents
	n := 8*cap(x.first) + 32*cap(x.hashes) + 4*cap(x.crcs) + 4*cap(x.lengths)
	n += 8*cap(e.first) + 4*cap(e.shard) + 8*cap(e.offset) + 8*cap(e.length) + 8*cap(x.packed)
	for _, s := range x.shards {
		n += 80 + len(s.Key) + len(s.ETag) + len(s.VersionID) + len(s.Says)
	}
	return int64(n+x.pages.resident()) + 2048
}

// ChunkOf returns the chunk that holds a sample.
func (x *Index) ChunkOf(sample uint64) int {
	return chunkOf(x.first, sample)
}

// chunkOf returns the chunk that holds a sample, or the number of chunks where none does. Chunks are mostly
// alike: the search begins where the sample lies if they are equal, and widens from there. Among a million
// chunks that is 2 to 18 times as fast as halving them all.
func chunkOf(first []uint64, sample uint64) int {
	n := len(first) - 1
	lo := max(0, min(n-1, int(float64(sample)/float64(max(1, first[n]))*float64(n))))
	hi := min(n, lo+1)
	for step := 1; lo > 0 && first[lo] > sample; step *= 2 {
		lo, hi = max(0, lo-step), lo
	}
	for step := 1; hi < n && first[hi] <= sample; step *= 2 {
		lo, hi = hi, min(n, hi+step)
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return first[lo+i+1] > sample })
}

// MeanParts is about how many parts a sample has. It is no less than that.
func (x *Index) MeanParts() int64 {
	return int64(x.head.PartCount/max(1, x.head.Samples)) + 1
}

// Size is the number of bytes of the index object.
func (x *Index) Size() int64 { return x.size }

// ReadAt reads the index object as it is stored.
func (x *Index) ReadAt(p []byte, off int64) (int, error) {
	before := 0
	if off < x.pages.begin { // header and digests are in the file, and were compared when it was opened
		n, err := x.file.ReadAt(p[:min(int64(len(p)), x.pages.begin-off)], off)
		if err != nil || n == len(p) {
			return n, err
		}
		before = n
	}
	n, err := x.pages.ReadAt(p[before:], off+int64(before))
	return before + n, err
}

// Table returns the sample table of a chunk, from the cache or from the index, checked.
func (x *Index) Table(ctx context.Context, chunk int) (*Table, error) {
	return detail(ctx, x, layout.SecTables, chunk, func(b []byte) (*Table, error) {
		return layout.DecodeTable(b, uint32(x.first[chunk+1]-x.first[chunk]), int64(x.lengths[chunk]), x.head.Longest, x.meta.Overlap)
	})
}

// fetchersAtOnce is how many reads of the store Fetch makes side by side.
const fetchersAtOnce = 16

// InPart says that what is read of the index may have to be fetched first.
func (x *Index) InPart() bool { return !x.pages.complete }

// Fetch brings the sample tables of some samples side by side, where they would else be fetched from the store one after another, as Table
// wants them.
func (x *Index) Fetch(ctx context.Context, samples []uint64) error {
	var chunks []int
	for _, n := range samples {
		c := x.ChunkOf(n)
		if len(chunks) > 0 && chunks[len(chunks)-1] == c {
			continue
		}
		if x.tables != nil {
			if _, ok := x.tables.Get(CacheKey{layout.SecTables, c}); ok {
				continue
			}
		}
		chunks = append(chunks, c)
	}
	slices.Sort(chunks)
	chunks = slices.Compact(chunks)
	if len(chunks) < 2 {
		return nil
	}
	return parallel.Each(ctx, fetchersAtOnce, len(chunks), func(ctx context.Context, _, i int) error {
		_, err := x.Table(ctx, chunks[i])
		return err
	})
}

// Block reads what a section of blocks has of a chunk.
func (x *Index) Block(ctx context.Context, sec, chunk int) ([]byte, error) {
	if chunk < 0 || chunk >= len(x.lengths) {
		return nil, fmt.Errorf("there are %d chunks only", len(x.lengths))
	}
	if sec == layout.SecNames && x.head.Hashed() == 0 {
		return nil, nil // all names follow from a rule
	}
	off, length, err := x.placeOf(ctx, sec, chunk)
	if err != nil {
		return nil, err
	}
	s := x.head.Sections[sec]
	if off < 0 || length < 0 || off > s.Length || length > s.Length-off || length > layout.MaxTable {
		return nil, fmt.Errorf("section %d: %w", sec+1, layout.ErrMalformed)
	}
	b := make([]byte, length)
	if err := x.pages.read(ctx, s.Offset+off, b); err != nil {
		return nil, fmt.Errorf("section %d: %w", sec+1, err)
	}
	return b, nil
}

// placeOf returns where a chunk's block lies in its section, which section 6 says.
func (x *Index) placeOf(ctx context.Context, sec, chunk int) (off, length int64, err error) {
	b := make([]byte, 2*layout.BlockRow)
	if err := x.pages.read(ctx, x.head.Sections[layout.SecBlocks].Offset+layout.BlockRow*int64(chunk), b); err != nil {
		return 0, 0, fmt.Errorf("block offsets: %w", err)
	}
	at := b[8*slices.Index(layout.BlockSections(), sec):]
	from, to := binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[layout.BlockRow:])
	if to < from || to-from > layout.MaxTable || from > math.MaxInt64 {
		return 0, 0, fmt.Errorf("block offsets: %w", layout.ErrMalformed)
	}
	return int64(from), int64(to - from), nil
}

// rule returns how the names of a chunk's samples follow from their shard's, if they do.
func (x *Index) rule(chunk int) layout.KeyRule {
	shard := x.shardOf(chunk)
	s := &x.shards[shard]
	if s.Stem == 0 {
		return layout.KeyRule{}
	}
	return layout.KeyRule{Stem: s.Key[:s.Stem], First: x.first[chunk] - x.firstOf(shard)}
}

// Key returns a sample's key. Lookup is its inverse.
func (x *Index) Key(ctx context.Context, sample uint64) (string, error) {
	if sample >= x.head.Samples {
		return "", fmt.Errorf("index %.12s: no sample %d", x.generation, sample)
	}
	chunk := x.ChunkOf(sample)
	var found string
	err := x.Keys(ctx, chunk, func(n uint64, key []byte) {
		if n == sample {
			found = string(key)
		}
	})
	return found, err
}

// Keys calls visit with the number and the key of every sample of a chunk, in stored order. Whoever wants several keys of
// a chunk reads its names once. A key is valid until visit returns.
func (x *Index) Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := x.Block(ctx, layout.SecNames, chunk)
	if err == nil {
		err = layout.EachKey(b, uint32(x.first[chunk+1]-x.first[chunk]), x.rule(chunk), func(i uint32, key []byte) error {
			visit(x.first[chunk]+uint64(i), key)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("index %.12s: chunk %d: %w", x.generation, chunk, err)
	}
	return nil
}

// Binding names the versions of the shards: it is another one where shards were stored again with the same bytes.
func (x *Index) Binding() string { return x.binding }

// Close gives back the local file, and what its cache keeps.
func (x *Index) Close() error {
	err := x.file.Close()
	if x.tables != nil {
		x.tables.Close()
	}
	return err
}
