package body

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/plans"
)

// manifestSample is the manifest entry of one sample.
type manifestSample struct {
	Position uint64 `json:"position"`
	Key      string `json:"key"`
	KeyBytes []byte `json:"key_base64,omitempty"` // set if the key is not valid UTF-8
	Source   string `json:"source,omitempty"`     // dataset of the shard, for a mixture
	Shard    string `json:"shard"`
	Offset   int64  `json:"offset"`
	Length   uint32 `json:"length"`
	CRC32C   string `json:"crc32c"`
}

// keysAtOnce is the number of samples whose keys are in memory together: 4 MiB for keys of maximum
// length.
const keysAtOnce = 1024

// manifestTotals are the members of a manifest before the list of samples.
type manifestTotals struct {
	Samples uint64   `json:"batch_samples,omitempty"`
	Cost    uint64   `json:"batch_cost,omitempty"`
	Micro   []uint32 `json:"micro,omitempty"`
	List    []string `json:"samples"` // empty
}

// EncodeManifest writes the manifest of the located samples as JSON in pieces, so that the whole
// manifest is never in memory.
func (b *Body) EncodeManifest(ctx context.Context, d *plans.Dataset, write func(p []byte)) error {
	index := d.Index
	head, err := json.Marshal(manifestTotals{b.Samples, b.Cost, b.Micro, []string{}})
	if err != nil {
		return fmt.Errorf("encode the totals of a batch: %w", err)
	}
	write(bytes.TrimSuffix(head, []byte("]}")))
	at := 0
	var line bytes.Buffer
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	for run := range slices.Chunk(b.samples, keysAtOnce) {
		keys, err := readKeys(ctx, index, run)
		if err != nil {
			return err
		}
		for i, s := range run {
			m := manifestSample{
				Position: b.Position(at), Key: keys[i], Source: d.SourceOf(int(s.chunk)), Length: s.length, CRC32C: fmt.Sprintf("%08x", s.crc),
			}
			if !utf8.ValidString(keys[i]) { // JSON would replace bytes, and different keys could become equal
				m.KeyBytes = []byte(keys[i])
			}
			extent := chunkindex.Locate(index.Chunk(int(s.chunk)), index.Extents(int(s.chunk)), int64(s.offset))
			m.Shard, m.Offset = index.Shard(extent.Shard).Key, extent.Offset
			line.Reset()
			if err := out.Encode(m); err != nil {
				return fmt.Errorf("encode sample %d: %w", s.number, err)
			}
			if at > 0 {
				write([]byte{','})
			}
			write(bytes.TrimSuffix(line.Bytes(), []byte("\n")))
			at++
		}
	}
	write([]byte("]}\n"))
	return nil
}
