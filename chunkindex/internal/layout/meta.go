package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Meta is the index's metadata of the whole dataset, stored as JSON.
type Meta struct {
	Format    string          `json:"format"`
	Scanner   int             `json:"scanner"`          // version of the rules that find samples
	Cutter    int             `json:"cutter,omitempty"` // version of the rules that cut chunks
	ChunkSize int64           `json:"chunk_size"`
	Defaults  Defaults        `json:"defaults"`
	Framing   json.RawMessage `json:"framing,omitempty"` // constants for the framing, if the format has any
	Classes   []string        `json:"classes,omitempty"` // names of class folders
	Overlap   int64           `json:"overlap,omitempty"` // maximum bytes that consecutive samples may share
}

// Defaults are the plan parameters stored in the index. Because they are stored, a URL that omits
// them has the same meaning in every version of the program.
type Defaults struct {
	Shuffle   string `json:"shuffle"`
	Window    uint64 `json:"window"`
	Seed      uint64 `json:"seed,string"`
	BatchSize uint64 `json:"batch_size"`
	Tail      string `json:"tail"`
}

// Shard is a stored object, with the version that it is bound to.
type Shard struct {
	Key       string // key relative to the dataset's prefix
	Size      int64
	ETag      string
	VersionID string
	Stem      int    // length of the key's prefix from which names are derived; 0: names are stored
	Says      string // SHA-256 of other objects' statements about the shard; empty: none
}

// Extent is a contiguous range of one shard.
type Extent struct {
	Shard  int
	Offset int64
	Length int64
}

// EncodeMeta encodes metadata without HTML escaping, so that the index stores the survey's
// constants byte for byte. The next survey compares its constants with them.
func EncodeMeta(m Meta) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len()-1 > MaxMeta {
		return nil, fmt.Errorf("the dataset's metadata, such as names and types of columns, takes %d bytes, more than the limit of %d: write the dataset with fewer columns or shorter names", b.Len()-1, MaxMeta)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
