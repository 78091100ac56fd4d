package build

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// written returns the written index of some shards without opening it.
func written(t *testing.T, shards ...shardScan) *indexFile {
	t.Helper()
	b, err := writeIndex(t.TempDir(), layout.Meta{Format: "tar", Scanner: 1, ChunkSize: 8 << 20, Defaults: layout.Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}}, shards)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manyChunks is a synthetic scan whose chunks have two samples each.
type manyChunks int

func (n manyChunks) take(visit func(*layout.ChunkRecord) error) error { return n.each(visit) }

func (n manyChunks) totals() (t layout.Totals) {
	_ = n.each(func(r *layout.ChunkRecord) error { t.Add(r); return nil })
	return t
}

func (n manyChunks) each(visit func(*layout.ChunkRecord) error) error {
	var r layout.ChunkRecord
	var plain layout.PlainBlocks
	for i := range int(n) {
		r.Reset()
		r.Length, r.Samples = 2048, 2
		r.CRC, r.Digest[0] = uint32(i), byte(i)
		r.Extents = append(r.Extents, layout.Extent{Offset: int64(i) * 2048, Length: 2048})
		plain.Reset()
		for j := range 2 {
			plain.Table = binary.LittleEndian.AppendUint32(plain.Table, uint32(j)*1024)
			plain.Table = binary.LittleEndian.AppendUint32(plain.Table, 1024)
			plain.Table = binary.LittleEndian.AppendUint32(plain.Table, 7)
			key := fmt.Sprintf("sample/%d/%d", i, j)
			plain.Names = append(binary.AppendUvarint(plain.Names, uint64(len(key))), key...)
			plain.Parts = layout.AppendPart(append(plain.Parts, 1), layout.Part{Ext: "bin", Offset: 512, Length: 512})
		}
		if err := r.Encode(&plain, 0, "a.tar", 0); err != nil {
			return err
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}
