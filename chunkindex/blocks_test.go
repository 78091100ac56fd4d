package chunkindex

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
)

// drawChunk returns the plain blocks of some samples, and the record that they belong to.
func drawChunk(t *rapid.T, overlap int64) (plainBlocks, chunkRecord) {
	var p plainBlocks
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	n := rapid.IntRange(1, 40).Draw(t, "samples")
	each := rapid.SampledFrom([]int{1, 10, 512, 1000}).Draw(t, "multiple of")
	same, gaps, numbered := rapid.Bool().Draw(t, "one length"), rapid.Bool().Draw(t, "gaps"), rapid.Bool().Draw(t, "numbered")
	text := rapid.SampledFrom([]string{"", "\n", "\r\n", "none", "mixed"}).Draw(t, "text")
	begin, end := int64(-1), int64(0)
	var rec chunkRecord
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
			crc = crc32.Update(crc, castagnoli(), []byte(text))
		}
		p.table = binary.LittleEndian.AppendUint32(p.table, uint32(off))
		p.table = binary.LittleEndian.AppendUint32(p.table, uint32(length))
		p.table = binary.LittleEndian.AppendUint32(p.table, crc)
		p.names = append(binary.AppendUvarint(p.names, uint64(len(key))), key...)
		p.parts = appendPart(append(p.parts, 1), part)
	}
	rec.samples, rec.length = uint32(n), end
	return p, rec
}

// What is left out of the blocks of an index is what follows from a rule: they say the same as the plain ones, whatever these say.
func TestBlocksSayWhatPlainOnesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlap := rapid.SampledFrom([]int64{0, 0, 2, 100}).Draw(t, "overlap")
		p, r := drawChunk(t, overlap)
		if err := r.encode(&p, overlap, "stem.jsonl", 7); err != nil {
			t.Fatal(err)
		}
		want, err := decodePlainTable(p.table, r.length, maxChunkSize, overlap)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeTable(r.table, r.samples, r.length, maxChunkSize, overlap)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("table: got %v, %v, want %v", got, err, want)
		}
		var keys, wanted []string
		note := func(to *[]string) func(uint32, []byte) error {
			return func(_ uint32, key []byte) error { *to = append(*to, string(key)); return nil }
		}
		if err := eachName(p.names, r.samples, note(&wanted)); err != nil {
			t.Fatal(err)
		}
		if err := eachKey(r.names, r.samples, keyRule{"stem.jsonl"[:r.stem], 7}, note(&keys)); err != nil || !reflect.DeepEqual(keys, wanted) {
			t.Fatalf("names: got %q, %v, want %q", keys, err, wanted)
		}
		plain, err := decodePlainParts(p.parts, want.Length)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := decodeParts(r.parts, want)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Length {
			if got, want := parts.Append(nil, i), plain.Append(nil, i); !reflect.DeepEqual(got, want) {
				t.Fatalf("parts of sample %d: got %v, want %v", i, got, want)
			}
		}
	})
}

// Lines of JSON take the 4 bytes of a checksum and what their lengths take, records of one size the checksum alone.
func TestBytesASample(t *testing.T) {
	for name, c := range map[string]struct {
		length func(i int) uint32
		most   int
	}{
		"records": {func(int) uint32 { return 3073 }, 4*1000 + 20},
		"lines":   {func(i int) uint32 { return uint32(100 + i*37%900) }, 6*1000 + 20},
	} {
		var p plainBlocks
		var r chunkRecord
		for i := range 1000 {
			n, crc := c.length(i), uint32(i)
			p.table = binary.LittleEndian.AppendUint32(p.table, uint32(r.length))
			p.table = binary.LittleEndian.AppendUint32(p.table, n)
			p.table = binary.LittleEndian.AppendUint32(p.table, crc32.Update(crc, castagnoli(), []byte("\n")))
			key := format.Numbered("a", uint64(i))
			p.names = append(binary.AppendUvarint(p.names, uint64(len(key))), key...)
			p.parts = appendPart(append(p.parts, 1), Part{Ext: "json", Length: n - 1, CRC32C: crc})
			r.length += int64(n)
		}
		if err := r.encode(&p, 0, "a.jsonl", 0); err != nil {
			t.Fatal(err)
		}
		if got := len(r.table) + len(r.names) + len(r.parts); got > c.most {
			t.Errorf("%s: got %d bytes, want at most %d", name, got, c.most)
		}
	}
}

// Blocks that somebody made up are refused, or say what can be; they take no memory that their bytes do not justify.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 10, 1, 2, 3, 4}, []byte{textParts, 1, 'a', 1, '\n'}, uint32(1), int64(0))
	f.Add([]byte{0, 1, 0, 5, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8}, []byte{wholeParts, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8}, uint32(2), int64(2))
	f.Fuzz(func(t *testing.T, table, parts []byte, n uint32, overlap int64) {
		if overlap < 0 || overlap > maxChunkSize || len(table) > 1<<16 || len(parts) > 1<<16 {
			return
		}
		const chunk = 1 << 20
		var err error
		if got := allocated(func() {
			var x *Table
			if x, err = decodeTable(table, n, chunk, chunk, overlap); err != nil {
				return
			}
			for i, off := range x.Offset {
				if int64(off)+int64(x.Length[i]) > chunk {
					t.Errorf("sample %d ends beyond its chunk", i)
				}
			}
			var p *Parts
			if p, err = decodeParts(parts, x); err != nil {
				return
			}
			for i := range x.Length {
				for _, q := range p.Append(nil, i) {
					if uint64(q.Offset)+uint64(q.Length) > uint64(x.Length[i]) {
						t.Errorf("a part of sample %d ends beyond it", i)
					}
				}
			}
		}); got > 32<<20 {
			t.Errorf("got %d bytes allocated", got)
		}
		if err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("got %v, want %v", err, errMalformed)
		}
	})
}

func TestSuffixIsCut(t *testing.T) {
	for _, text := range []string{"", "\n", "\r\n", "any text"} {
		before := crc32.Checksum([]byte("what stood before"), castagnoli())
		both := crc32.Checksum([]byte("what stood before"+text), castagnoli())
		if got := newSuffix([]byte(text)).cut(both); got != before {
			t.Errorf("%q: got %x, want %x", text, got, before)
		}
	}
	if bytes.Equal(newSuffix([]byte("ab")).text, []byte("ab")) {
		t.Error("a text is cut from its end on")
	}
}
