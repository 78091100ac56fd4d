package build

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// written writes a segment of some shards and returns the file.
func written(t *testing.T, shards ...shardScan) (*os.File, layout.SegmentRef) {
	t.Helper()
	f, err := tempfile.File(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	ref, err := writeSegment(t.TempDir(), f, 0, shards)
	if err != nil {
		t.Fatal(err)
	}
	return f, ref
}

// assembled opens an index that has only a segment of written.
func assembled(t *testing.T, f *os.File, ref layout.SegmentRef) *chunkindex.Index {
	t.Helper()
	segments, err := chunkindex.OpenSegments(f, []layout.SegmentRef{ref})
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := chunkindex.Assemble(layout.Meta{Format: "tar", Scanner: 1, ChunkSize: 8 << 20, Defaults: layout.Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}}, segments)
	if err != nil {
		t.Fatal(err)
	}
	return x
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
