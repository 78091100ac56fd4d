package layout

import (
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
	in := blockReader{b: block}
	for i := range n {
		key := in.bytes(in.below(format.MaxKey))
		if in.bad {
			return fmt.Errorf("names: sample %d: %w", i, ErrMalformed)
		}
		if err := visit(i, key); err != nil {
			return err
		}
	}
	if len(in.b) != 0 {
		return fmt.Errorf("names: %d bytes after the end: %w", len(in.b), ErrMalformed)
	}
	return nil
}

// decodePlainParts decodes all parts of the samples of a table. It requires that the parts
// of a sample ascend and do not overlap.
func decodePlainParts(block []byte, t *Table) (*Parts, error) {
	all := &Parts{ends: make([]uint32, t.Len())}
	numbers := map[string]uint32{}
	in := blockReader{b: block}
	for i := range t.Len() {
		count := in.below(uint64(len(in.b)) / 7) // a part needs at least seven bytes
		if i == 0 {                              // most samples of a chunk have the same number of parts as the first
			all.parts = make([]packedPart, 0, min(int(count)*t.Len(), len(block)/7))
		}
		var end uint32
		for range count {
			name := in.bytes(in.below(format.MaxKey))
			part := packedPart{offset: uint32(in.below(uint64(t.Length(i))))}
			part.length = uint32(in.below(uint64(t.Length(i) - part.offset)))
			if part.crc = in.uint32(); in.bad || part.offset < end {
				return nil, fmt.Errorf("parts: sample %d: %w", i, ErrMalformed)
			}
			part.name = all.number(numbers, name)
			all.parts = append(all.parts, part)
			end = part.offset + part.length
		}
		if in.bad {
			return nil, fmt.Errorf("parts: sample %d: %w", i, ErrMalformed)
		}
		all.ends[i] = uint32(len(all.parts))
	}
	if len(in.b) != 0 {
		return nil, fmt.Errorf("parts: %d bytes after the end: %w", len(in.b), ErrMalformed)
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
