package layout

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// PlainBlocks lists the data of every sample of a chunk explicitly. ChunkRecord.Encode omits data
// that a rule determines.
type PlainBlocks struct {
	Table []byte // 12 bytes per sample: offset, length, CRC-32C
	Names []byte // per sample: uvarint length, key
	Parts []byte // per sample: uvarint count, parts
}

// Reset empties the blocks but retains their memory.
func (p *PlainBlocks) Reset() { *p = PlainBlocks{p.Table[:0], p.Names[:0], p.Parts[:0]} }

// Encode converts plain blocks to the record's compact blocks. shard is the key of the chunk's
// shard, and first is the number of the shard's samples before the chunk.
func (r *ChunkRecord) Encode(p *PlainBlocks, overlap int64, shard string, first uint64) error {
	t, err := decodePlainTable(p.Table, r.Length, MaxChunkSize, overlap)
	if err != nil {
		return err
	}
	all, err := decodePlainParts(p.Parts, t)
	if err != nil {
		return err
	}
	r.Table = encodeTable(r.Table[:0], t, overlap)
	if r.Stem = numberedStem(p.Names, shard, first); r.Stem > 0 {
		r.Names = r.Names[:0]
	} else {
		r.Names = append(r.Names[:0], p.Names...)
	}
	r.Parts = encodeParts(r.Parts[:0], p.Parts, all, t)
	r.sum(t, all)
	return nil
}

// Flags in the first byte of a sample table. Each marks a property that all samples share.
const (
	sameGaps    = 1 << iota // the gap between consecutive samples
	sameLengths             // the sample length
)

// encodeTable appends a sample table: flags, the number of zero bits at the end of all lengths, the
// first sample's offset, the shared gap and length, the individual gaps and lengths that are not
// shared, and the CRC-32C of each sample.
func encodeTable(b []byte, t *Table, overlap int64) []byte {
	n := t.Len()
	gap := func(i int) uint64 { // includes the overlap, so that the gap is never negative
		return uint64(int64(t.Offset(i)) - int64(t.Offset(i-1)) - int64(t.Length(i-1)) + overlap)
	}
	flags, shift := byte(sameGaps|sameLengths), 31
	for i := range n {
		shift = min(shift, bits.TrailingZeros32(t.Length(i)))
		if i > 1 && gap(i) != gap(1) {
			flags &^= sameGaps
		}
		if t.Length(i) != t.Length(0) {
			flags &^= sameLengths
		}
	}
	b = append(b, flags, byte(shift))
	b = binary.AppendUvarint(b, uint64(t.Offset(0)))
	if flags&sameGaps != 0 {
		between := uint64(overlap)
		if n > 1 {
			between = gap(1)
		}
		b = binary.AppendUvarint(b, between)
	}
	if flags&sameLengths != 0 {
		b = binary.AppendUvarint(b, uint64(t.Length(0))>>shift)
	}
	for i := range n {
		if flags&sameGaps == 0 && i > 0 {
			b = binary.AppendUvarint(b, gap(i))
		}
		if flags&sameLengths == 0 {
			b = binary.AppendUvarint(b, uint64(t.Length(i))>>shift)
		}
	}
	for _, crc := range t.crcs {
		b = binary.LittleEndian.AppendUint32(b, crc)
	}
	return b
}

// DecodeTable decodes the sample table of n samples. It checks that offsets ascend and that all
// samples are within the chunk. Consecutive samples may overlap by at most overlap bytes.
func DecodeTable(b []byte, n uint32, chunk, longest, overlap int64) (*Table, error) {
	in := blockReader{b: b}
	head := in.bytes(2)
	if in.bad || uint64(len(b)) < 4*uint64(n) || head[0] > sameGaps|sameLengths || head[1] > 31 {
		return nil, fmt.Errorf("sample table: %w", ErrMalformed)
	}
	flags, shift := head[0], head[1]
	t := &Table{crcs: make([]uint32, n)}
	if flags != sameGaps|sameLengths {
		t = newTable(int(n))
	}
	c := tableCheck{chunk: chunk, longest: longest, overlap: overlap, begin: -1}
	off := int64(in.below(MaxChunkSize))
	t.first = uint32(off)
	var gap, length int64
	if flags&sameGaps != 0 {
		gap = int64(in.below(2*MaxChunkSize)) - overlap
	}
	if flags&sameLengths != 0 {
		length = int64(in.below(MaxChunkSize)) << shift
	}
	for i := range t.crcs {
		if flags&sameGaps == 0 && i > 0 {
			gap = int64(in.below(2*MaxChunkSize)) - overlap
		}
		if flags&sameLengths == 0 {
			length = int64(in.below(MaxChunkSize)) << shift
		}
		if i > 0 {
			off = c.end + gap
		}
		if in.bad || !c.next(off, length) {
			return nil, fmt.Errorf("sample table: sample %d: %w", i, ErrMalformed)
		}
		if t.offsets != nil {
			t.offsets[i], t.lengths[i] = uint32(off), uint32(length)
		}
	}
	t.distance, t.length = uint32(length+gap), uint32(length)
	for i := range t.crcs {
		t.crcs[i] = in.uint32()
	}
	if in.bad || len(in.b) > 0 {
		return nil, fmt.Errorf("sample table: %w", ErrMalformed)
	}
	return t, nil
}

// KeyRule derives the names of a chunk's samples from their shard's key.
type KeyRule struct {
	Stem  string // empty: no rule
	First uint64 // number of the chunk's first sample in its shard
}

// numberedStem returns the length of a prefix of the shard key, if format.Numbered derives all of
// the chunk's sample names from this prefix. Otherwise it returns 0.
func numberedStem(names []byte, shard string, first uint64) int {
	stem, n := "", first
	for len(names) > 0 {
		size, w := binary.Uvarint(names)
		key := names[w : w+int(size)]
		if n == first {
			found, ok := strings.CutSuffix(string(key), format.Numbered("", n))
			if !ok || found == "" || !strings.HasPrefix(shard, found) {
				return 0
			}
			stem = found
		} else if string(key) != format.Numbered(stem, n) {
			return 0
		}
		names = names[w+int(size):]
		n++
	}
	return len(stem)
}

// EachKey calls visit for every key of a names block of n samples. For an empty block, it derives
// the names from the rule.
func EachKey(block []byte, n uint32, rule KeyRule, visit func(i uint32, key []byte) error) error {
	if len(block) > 0 {
		return eachName(block, n, visit)
	}
	if rule.Stem == "" {
		return fmt.Errorf("names: %w", ErrMalformed)
	}
	for i := range n {
		if err := visit(i, []byte(format.Numbered(rule.Stem, rule.First+uint64(i)))); err != nil {
			return err
		}
	}
	return nil
}

// The first byte of a parts block selects its encoding.
const (
	listedParts = iota // every part of every sample
	wholeParts         // each sample is one part between equally long margins; the parts' checksums follow
	textParts          // each sample is one part plus a constant text, so the sample's checksum determines the part's checksum
)

// encodeParts appends a compact parts block. plain is the plain block of the same parts, and all
// contains these parts.
func encodeParts(b, plain []byte, all *Parts, t *Table) []byte {
	begin, tail, ok := all.whole(t)
	if !ok {
		return append(append(b, listedParts), plain...)
	}
	kind, text := byte(wholeParts), ""
	if begin == 0 && tail <= 2 {
		text = []string{"", "\n", "\r\n"}[tail]
		if all.followsText(t, text) {
			kind = textParts
		}
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(all.Names[0])))
	b = append(b, all.Names[0]...)
	if kind == textParts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		return append(b, text...)
	}
	b = binary.AppendUvarint(b, uint64(begin))
	b = binary.AppendUvarint(b, uint64(tail))
	for _, p := range all.parts {
		b = binary.LittleEndian.AppendUint32(b, p.crc)
	}
	return b
}

// whole reports whether each sample has exactly one part, and all these parts have the same name
// and the same margins before and after them.
func (p *Parts) whole(t *Table) (begin, tail uint32, ok bool) {
	if len(p.parts) != t.Len() || len(p.Names) != 1 {
		return 0, 0, false
	}
	for i, q := range p.parts {
		rest := t.Length(i) - q.offset - q.length
		if i == 0 {
			begin, tail = q.offset, rest
		}
		if p.ends[i] != uint32(i+1) || q.offset != begin || rest != tail {
			return 0, 0, false
		}
	}
	return begin, tail, true
}

// followsText reports whether each sample consists of its part followed by text. It compares
// checksums.
func (p *Parts) followsText(t *Table, text string) bool {
	for i, q := range p.parts {
		if crc32.Update(q.crc, Castagnoli(), []byte(text)) != t.CRC32C(i) {
			return false
		}
	}
	return true
}

// DecodeParts decodes a parts block for the samples of table t. It requires that the parts of a
// sample ascend and do not overlap.
func DecodeParts(block []byte, t *Table) (*Parts, error) {
	in := blockReader{b: block}
	kind := in.bytes(1)
	if in.bad || kind[0] > textParts {
		return nil, fmt.Errorf("parts: %w", ErrMalformed)
	}
	if kind[0] == listedParts {
		return decodePlainParts(in.b, t)
	}
	n := t.Len()
	name := string(in.bytes(in.below(format.MaxKey)))
	all := &Parts{Names: []string{name}, bytes: int64(len(name)), ends: make([]uint32, n)}
	var begin, tail uint32
	var text []byte
	if kind[0] == textParts {
		text = in.bytes(in.below(format.MaxKey))
		tail = uint32(len(text))
	} else {
		begin, tail = uint32(in.below(MaxChunkSize)), uint32(in.below(MaxChunkSize))
	}
	if !in.bad && uint64(len(in.b)) != uint64(n)*4*uint64(textParts-kind[0]) {
		in.bad = true
	}
	if !in.bad {
		all.parts = make([]packedPart, n)
	}
	undo := newSuffix(text)
	for i := range all.parts {
		if uint64(begin)+uint64(tail) > uint64(t.Length(i)) {
			return nil, fmt.Errorf("parts: sample %d: %w", i, ErrMalformed)
		}
		crc := undo.cut(t.CRC32C(i))
		if kind[0] == wholeParts {
			crc = in.uint32()
		}
		all.parts[i] = packedPart{offset: begin, length: t.Length(i) - begin - tail, crc: crc}
		all.ends[i] = uint32(i + 1)
	}
	if in.bad {
		return nil, fmt.Errorf("parts: %w", ErrMalformed)
	}
	return all, nil
}

// suffix computes the CRC-32C of data from the CRC-32C of the data followed by a known suffix.
type suffix struct {
	table *crc32.Table
	rows  *[256]byte // index of the table entry by its highest byte
	text  []byte     // the suffix, reversed
}

func newSuffix(text []byte) *suffix {
	s := &suffix{table: Castagnoli(), text: slices.Clone(text)}
	slices.Reverse(s.text)
	if len(text) > 0 {
		s.rows = new([256]byte)
		for i, row := range s.table {
			s.rows[row>>24] = byte(i)
		}
	}
	return s
}

// cut returns the checksum of the data before the suffix. crc is the checksum of the data including
// the suffix.
func (s *suffix) cut(crc uint32) uint32 {
	crc = ^crc
	for _, b := range s.text {
		i := s.rows[crc>>24]
		crc = (crc^s.table[i])<<8 | uint32(i^b)
	}
	return ^crc
}

// blockReader reads an index block. It sets bad for a read beyond the end or a value out of range.
type blockReader struct {
	b   []byte
	bad bool
}

func (c *blockReader) bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.b)) {
		c.bad = true
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// below reads an unsigned varint and sets bad if it exceeds most.
func (c *blockReader) below(most uint64) uint64 {
	n, w := binary.Uvarint(c.b)
	if c.bad || w <= 0 || n > most {
		c.bad = true
		return 0
	}
	c.b = c.b[w:]
	return n
}

func (c *blockReader) uint32() uint32 {
	b := c.bytes(4)
	if c.bad {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}
