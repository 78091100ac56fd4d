package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Part is a named piece of a sample, such as one member of a tar sample.
type Part struct {
	Ext    string
	Offset uint32 // offset in the sample
	Length uint32
	CRC32C uint32
}

// Parts holds the parts of a chunk's samples in stored order. Each distinct name is stored once.
type Parts struct {
	Names []string
	parts []packedPart
	ends  []uint32 // for each sample, the end of its parts in the parts slice
	bytes int64    // total length of the names
}

type packedPart struct{ name, offset, length, crc uint32 }

// Append appends the parts of sample i of the chunk to dst, in stored order.
func (p *Parts) Append(dst []Part, i int) []Part {
	begin := uint32(0)
	if i > 0 {
		begin = p.ends[i-1]
	}
	for _, q := range p.parts[begin:p.ends[i]] {
		dst = append(dst, Part{p.Names[q.name], q.offset, q.length, q.crc})
	}
	return dst
}

// Bytes returns the memory size of the parts.
func (p *Parts) Bytes() int64 {
	return p.bytes + int64(16*cap(p.Names)+16*cap(p.parts)+4*cap(p.ends)) + 192
}

// eachName calls visit for every key of a non-empty names block of n samples.
func eachName(block []byte, n uint32, visit func(i uint32, key []byte) error) error {
	for i := range n {
		size, w := binary.Uvarint(block)
		if w <= 0 || size > format.MaxKey || size > uint64(len(block)-w) {
			return fmt.Errorf("names: sample %d: %w", i, ErrMalformed)
		}
		if err := visit(i, block[w:w+int(size)]); err != nil {
			return err
		}
		block = block[w+int(size):]
	}
	if len(block) != 0 {
		return fmt.Errorf("names: %d bytes after the end: %w", len(block), ErrMalformed)
	}
	return nil
}

// decodePlainParts decodes all parts of the samples of a table. It requires that the parts
// of a sample ascend and do not overlap.
func decodePlainParts(block []byte, t *Table) (*Parts, error) {
	all := &Parts{ends: make([]uint32, t.Len())}
	numbers := map[string]uint32{}
	for i := range t.Len() {
		count, w := binary.Uvarint(block)
		// A part needs at least seven bytes, so the block's length limits the count.
		if w <= 0 || count > uint64(len(block)-w)/7 {
			return nil, fmt.Errorf("parts: sample %d: %w", i, ErrMalformed)
		}
		if i == 0 { // most samples of a chunk have the same number of parts as the first
			all.parts = make([]packedPart, 0, min(int(count)*t.Len(), len(block)/7))
		}
		block = block[w:]
		var end uint32
		for range count {
			name, part, rest, err := decodePart(block, t.Length(i))
			if err == nil && part.offset < end {
				err = ErrMalformed
			}
			if err != nil {
				return nil, fmt.Errorf("parts: sample %d: %w", i, err)
			}
			part.name = all.number(numbers, name)
			all.parts = append(all.parts, part)
			end, block = part.offset+part.length, rest
		}
		all.ends[i] = uint32(len(all.parts))
	}
	if len(block) != 0 {
		return nil, fmt.Errorf("parts: %d bytes after the end: %w", len(block), ErrMalformed)
	}
	return all, nil
}

// number returns the index of a name in Names, adding it if it is new.
func (p *Parts) number(numbers map[string]uint32, name []byte) uint32 {
	n, known := numbers[string(name)]
	if !known {
		n = uint32(len(p.Names))
		s := string(name)
		numbers[s] = n
		p.Names, p.bytes = append(p.Names, s), p.bytes+int64(len(s))
	}
	return n
}

// decodePart decodes one part of a sample of the given length.
func decodePart(b []byte, sample uint32) (name []byte, p packedPart, rest []byte, err error) {
	size, w := binary.Uvarint(b)
	if w <= 0 || size > format.MaxKey || size > uint64(len(b)-w) {
		return nil, p, nil, ErrMalformed
	}
	name, b = b[w:w+int(size)], b[w+int(size):]
	off, w := binary.Uvarint(b)
	if w <= 0 {
		return nil, p, nil, ErrMalformed
	}
	b = b[w:]
	length, w := binary.Uvarint(b)
	if w <= 0 || len(b)-w < 4 || off > uint64(sample) || length > uint64(sample)-off {
		return nil, p, nil, ErrMalformed
	}
	b = b[w:]
	p = packedPart{offset: uint32(off), length: uint32(length), crc: binary.LittleEndian.Uint32(b)}
	return name, p, b[4:], nil
}
