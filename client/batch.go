package client

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// Batch is one rank's share of one global batch: a small, valid shard in the dataset's own format.
type Batch struct {
	Epoch       uint64
	Number      uint64 // of the batch in its epoch
	Batches     uint64 // of the epoch
	Generation  string
	Dataset     string // as the gateway names it; empty if it did not say
	CRC         uint32 // CRC-32C of Bytes, checked
	Padded      uint64 // how many of the samples, the last ones, repeat samples of the same epoch
	Location    string // canonical path and query of the batch
	ContentType string // of Bytes

	data     []byte        // the whole; with a lease the table alone
	lease    *lease        // of memory that the samples lie in; nil: data has them
	frame    *frame        // of the framed form; nil: another form, or closed
	kept     bool          // data was read from Options.folder
	took     time.Duration // from the first request until the batch, and its manifest, was checked
	count    int
	manifest []Sample
	starts   []int64 // of the manifest's samples in data
}

// Sample describes one sample of a batch, as its manifest does.
type Sample struct {
	Position uint64 `json:"position"` // in the epoch's order
	Key      string `json:"key"`
	Shard    any    `json:"shard"`  // the stored shard the sample comes from
	Offset   int64  `json:"offset"` // of the sample in that shard's chunk or file: where it is stored, not its place in the batch
	Length   int64  `json:"length"`
	CRC32C   CRC    `json:"crc32c"`
}

// CRC is a CRC-32C; in JSON eight hex digits, or a number.
type CRC uint32

// UnmarshalJSON reads either form.
func (c *CRC) UnmarshalJSON(p []byte) error {
	var s string
	base := 16
	if err := json.Unmarshal(p, &s); err != nil {
		s, base = string(p), 10
	}
	n, err := strconv.ParseUint(s, base, 32)
	if err != nil {
		return fmt.Errorf("crc32c %s: %w", p, err)
	}
	*c = CRC(n)
	return nil
}

// Bytes returns the whole batch. The caller may keep it and change it. Of a batch in shared memory it is a copy.
func (b *Batch) Bytes() []byte {
	if b.lease != nil {
		return b.whole()
	}
	return b.data
}

// Samples returns how many samples the batch has, padded ones included.
func (b *Batch) Samples() int { return b.count }

// Sample returns the stored bytes of sample i, as a slice of Bytes: nothing is parsed and
// nothing copied. It needs Options.Manifest, or Options.Format framed, and panics without. Of a batch in shared memory it cannot be
// written to, and must not be used after Close.
func (b *Batch) Sample(i int) []byte {
	if b.frame != nil || b.lease != nil {
		b.needFrame()
		return b.frame.sample(i)
	}
	b.needManifest()
	lo := b.starts[i]
	hi := lo + b.manifest[i].Length
	return b.data[lo:hi:hi]
}

// Describe returns the manifest's line about sample i. It needs Options.Manifest and panics without.
func (b *Batch) Describe(i int) Sample {
	b.needManifest()
	return b.manifest[i]
}

// HasManifest reports whether Sample and Describe may be called.
func (b *Batch) HasManifest() bool { return b.manifest != nil }

func (b *Batch) needManifest() {
	if b.manifest == nil {
		panic("client: Batch has no manifest: set Options.Manifest")
	}
}

// castagnoli returns the table that the standard library builds once and recognises.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
