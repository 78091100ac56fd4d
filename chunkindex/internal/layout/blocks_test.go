package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/testing/memory"
)

// drawChunk returns the plain blocks of random samples, and a record of these samples without
// blocks.
func drawChunk(t *rapid.T, overlap int64) (PlainBlocks, ChunkRecord) {
	var p PlainBlocks
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	n := rapid.IntRange(1, 40).Draw(t, "samples")
	each := rapid.SampledFrom([]int{1, 10, 512, 1000}).Draw(t, "multiple of")
	same, gaps, numbered := rapid.Bool().Draw(t, "one length"), rapid.Bool().Draw(t, "gaps"), rapid.Bool().Draw(t, "numbered")
	text := rapid.SampledFrom([]string{"", "\n", "\r\n", "none", "mixed"}).Draw(t, "text")
	begin, end := int64(-1), int64(0)
	var rec ChunkRecord
	for i := range n {
		length := int64(each * (8 + r.IntN(30)))
		if same {
			length = int64(each * 20)
		}
		off := end
		if i > 0 {
			off -= min(overlap, length/2)
		}
		if gaps && i > 0 {
			off += int64(r.IntN(5))
		}
		if off <= begin || off+length <= end {
			off = end
		}
		begin, end = off, off+length
		key := format.Numbered("stem", uint64(7+i))
		if !numbered && i == n/2 {
			key = fmt.Sprint("other", i)
		}
		part := Part{Ext: "json", Length: uint32(length), CRC32C: r.Uint32()}
		crc := part.CRC32C
		switch text {
		case "none":
			part.Offset, part.Length = 1, part.Length-4
		case "mixed":
			part.Length -= uint32(i % 3)
		default:
			part.Length -= uint32(len(text))
			crc = crc32.Update(crc, Castagnoli(), []byte(text))
		}
		p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(off))
		p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(length))
		p.Table = binary.LittleEndian.AppendUint32(p.Table, crc)
		p.Names = append(binary.AppendUvarint(p.Names, uint64(len(key))), key...)
		p.Parts = AppendPart(append(p.Parts, 1), part)
	}
	rec.Samples, rec.Length = uint32(n), end
	return p, rec
}

// TestChunkRecord_EncodeKeepsTheData checks that encoded blocks decode to the same data as the
// plain blocks.
func TestChunkRecord_EncodeKeepsTheData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlap := rapid.SampledFrom([]int64{0, 0, 2, 100}).Draw(t, "overlap")
		p, r := drawChunk(t, overlap)
		if err := r.Encode(&p, overlap, "stem.jsonl", 7); err != nil {
			t.Fatal(err)
		}
		want, err := decodePlainTable(p.Table, r.Length, MaxChunkSize, overlap)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeTable(r.Table, r.Samples, r.Length, MaxChunkSize, overlap)
		if err != nil || got.Len() != want.Len() {
			t.Fatalf("table: got %v, %v, want %v", got, err, want)
		}
		for i := range want.Len() {
			if got.Offset(i) != want.Offset(i) || got.Length(i) != want.Length(i) || got.CRC32C(i) != want.CRC32C(i) {
				t.Fatalf("sample %d: got %v, want %v", i, got, want)
			}
		}
		var keys, wanted []string
		note := func(to *[]string) func(uint32, []byte) error {
			return func(_ uint32, key []byte) error { *to = append(*to, string(key)); return nil }
		}
		if err := eachName(p.Names, r.Samples, note(&wanted)); err != nil {
			t.Fatal(err)
		}
		if err := EachKey(r.Names, r.Samples, KeyRule{"stem.jsonl"[:r.Stem], 7}, note(&keys)); err != nil || !reflect.DeepEqual(keys, wanted) {
			t.Fatalf("names: got %q, %v, want %q", keys, err, wanted)
		}
		plain, err := decodePlainParts(p.Parts, want)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := DecodeParts(r.Parts, want)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Len() {
			if got, want := parts.Append(nil, i), plain.Append(nil, i); !reflect.DeepEqual(got, want) {
				t.Fatalf("parts of sample %d: got %v, want %v", i, got, want)
			}
		}
	})
}

// TestEncode_BytesPerSample checks the size of encoded blocks. JSON lines need 4 bytes for the
// checksum and 1 or 2 for the length. Records of one size need only the checksum.
func TestEncode_BytesPerSample(t *testing.T) {
	for name, c := range map[string]struct {
		length func(i int) uint32
		most   int
	}{
		"records": {func(int) uint32 { return 3073 }, 4*1000 + 20},
		"lines":   {func(i int) uint32 { return uint32(100 + i*37%900) }, 6*1000 + 20},
	} {
		var p PlainBlocks
		var r ChunkRecord
		for i := range 1000 {
			n, crc := c.length(i), uint32(i)
			p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(r.Length))
			p.Table = binary.LittleEndian.AppendUint32(p.Table, n)
			p.Table = binary.LittleEndian.AppendUint32(p.Table, crc32.Update(crc, Castagnoli(), []byte("\n")))
			key := format.Numbered("a", uint64(i))
			p.Names = append(binary.AppendUvarint(p.Names, uint64(len(key))), key...)
			p.Parts = AppendPart(append(p.Parts, 1), Part{Ext: "json", Length: n - 1, CRC32C: crc})
			r.Length += int64(n)
		}
		if err := r.Encode(&p, 0, "a.jsonl", 0); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Table) + len(r.Names) + len(r.Parts); got > c.most {
			t.Errorf("%s: got %d bytes, want at most %d", name, got, c.most)
		}
	}
}

// FuzzBlocks checks that malformed blocks are rejected or decode to valid data. They must not
// allocate more memory than their bytes justify.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 10, 1, 2, 3, 4}, []byte{textParts, 1, 'a', 1, '\n'}, uint32(1), int64(0))
	f.Add([]byte{0, 1, 0, 5, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8}, []byte{wholeParts, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8}, uint32(2), int64(2))
	f.Fuzz(func(t *testing.T, table, parts []byte, n uint32, overlap int64) {
		if overlap < 0 || overlap > MaxChunkSize || len(table) > 1<<16 || len(parts) > 1<<16 {
			return
		}
		const chunk = 1 << 20
		var err error
		if got := memory.Allocated(func() {
			var x *Table
			if x, err = DecodeTable(table, n, chunk, chunk, overlap); err != nil {
				return
			}
			for i := range x.Len() {
				if int64(x.Offset(i))+int64(x.Length(i)) > chunk {
					t.Errorf("sample %d ends beyond its chunk", i)
				}
			}
			var p *Parts
			if p, err = DecodeParts(parts, x); err != nil {
				return
			}
			for i := range x.Len() {
				for _, q := range p.Append(nil, i) {
					if uint64(q.Offset)+uint64(q.Length) > uint64(x.Length(i)) {
						t.Errorf("a part of sample %d ends beyond it", i)
					}
				}
			}
		}); got > 32<<20 {
			t.Errorf("got %d bytes allocated", got)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("got %v, want %v", err, ErrMalformed)
		}
	})
}

func TestSuffix_Cut(t *testing.T) {
	for _, text := range []string{"", "\n", "\r\n", "any text"} {
		before := crc32.Checksum([]byte("what stood before"), Castagnoli())
		both := crc32.Checksum([]byte("what stood before"+text), Castagnoli())
		if got := newSuffix([]byte(text)).cut(both); got != before {
			t.Errorf("%q: got %x, want %x", text, got, before)
		}
	}
	if bytes.Equal(newSuffix([]byte("ab")).text, []byte("ab")) {
		t.Error("newSuffix did not reverse the text")
	}
}
