package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Meta is what an index says of the dataset as a whole.
type Meta struct {
	Format    string          `json:"format"`
	Scanner   int             `json:"scanner"`          // version of the rules by which samples were found
	Cutter    int             `json:"cutter,omitempty"` // how often the rules by which chunks are cut had changed
	ChunkSize int64           `json:"chunk_size"`
	Defaults  Defaults        `json:"defaults"`
	Framing   json.RawMessage `json:"framing,omitempty"` // constants of formats that need any
	Classes   []string        `json:"classes,omitempty"` // names of class folders
	Overlap   int64           `json:"overlap,omitempty"` // bytes that a sample may share with the one before
}

// Defaults are the plan parameters stored in the index, so that no release of the
// program changes what a URL that leaves them out means.
type Defaults struct {
	Shuffle   string `json:"shuffle"`
	Window    uint64 `json:"window"`
	Seed      uint64 `json:"seed,string"`
	BatchSize uint64 `json:"batch_size"`
	Tail      string `json:"tail"`
}

// Shard is one stored object, with the version it is bound to.
type Shard struct {
	Key       string // relative to the dataset's prefix
	Size      int64
	ETag      string
	VersionID string
	Stem      int    // bytes of the key that names by rule begin with; 0: there is no rule
	Says      string // SHA-256 of what other objects said of it, empty if none did
}

// Extent is a contiguous range of one shard.
type Extent struct {
	Shard  int
	Offset int64
	Length int64
}

// Table is the sample table of one chunk: offsets and digests, relative to the chunk's decoded bytes.
type Table struct {
	Offset, Length, CRC32C []uint32
}

// Bytes returns the memory that the table holds.
func (t *Table) Bytes() int64 { return int64(12*cap(t.Offset)) + 128 }

// EncodeMeta leaves the constants of a dataset as its survey wrote them: json.Marshal would write "<" otherwise, and the next
// survey would find others than the index has.
func EncodeMeta(m Meta) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len()-1 > MaxMeta {
		return nil, fmt.Errorf("what is the same for all samples, such as names and types of columns, takes %d bytes of an index, which can hold %d: write the dataset with fewer columns, or shorter names", b.Len()-1, MaxMeta)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
