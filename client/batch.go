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
	Epoch        uint64
	Number       uint64 // number of the batch in its epoch
	Batches      uint64 // number of batches in the epoch
	Generation   string
	Dataset      string   // dataset name from the gateway; empty if the response has none
	CRC          uint32   // CRC-32C of Bytes, checked
	Padded       uint64   // number of samples that repeat earlier samples of the epoch; without Micro the last ones
	BatchSamples uint64   // samples of the global batch, of all ranks together, by which a loss is weighted
	BatchCost    uint64   // sum of their costs, each at least 1; 0 without balance
	Micro        []uint64 // samples of each micro-batch, one after another; nil without micro
	Location     string   // canonical path and query of the batch
	ContentType  string   // media type of Bytes

	data     []byte        // the whole body; with a lease only the table
	lease    *lease        // shared memory that holds the samples; nil: data holds them
	frame    *frame        // table of the framed form; nil: another form, or the batch is closed
	kept     bool          // data was read from a file in Options.folder
	took     time.Duration // time from the first request until the batch and its manifest were checked
	count    int
	skip     uint64 // samples before them in the global batch that were not requested
	manifest []Sample
	starts   []int64 // offset in data of each sample of the manifest
}

// Sample is the manifest entry of one sample.
type Sample struct {
	Position uint64 `json:"position"` // position in the epoch's order
	Key      string `json:"key"`
	Shard    any    `json:"shard"`  // stored shard of the sample
	Offset   int64  `json:"offset"` // offset of the sample in its stored chunk or file, not in the batch
	Length   int64  `json:"length"`
	CRC32C   CRC    `json:"crc32c"`
}

// CRC is a CRC-32C. Its JSON form is eight hex digits or a number.
type CRC uint32

// UnmarshalJSON accepts both forms.
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

// Bytes returns the whole batch, which the caller may keep and change. For a batch in shared memory
// it returns a copy.
func (b *Batch) Bytes() []byte {
	if b.lease != nil {
		return b.whole()
	}
	return b.data
}

// Samples returns the number of samples in the batch, padding included.
func (b *Batch) Samples() int { return b.count }

// Sample returns the stored bytes of sample i as a slice of Bytes, without parsing or copying. It
// panics without Options.Manifest or Options.Format framed. In a batch in shared memory the slice
// is read-only and must not be used after Close.
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

// Describe returns the manifest entry of sample i. It panics without Options.Manifest.
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

// castagnoli returns the standard library's Castagnoli table, for which crc32 uses CPU
// instructions.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
