package chunkindex

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Part is a piece of a sample that a format can name, such as one member of a tar sample.
type Part struct {
	Ext    string
	Offset uint32 // in the sample
	Length uint32
	CRC32C uint32
}

// Names are the keys of a chunk's samples, in stored order.
type Names struct {
	text string // one key after the other
	ends []uint32
}

// Key returns that of sample i of the chunk. It is part of a larger string: whoever keeps it clones it.
func (n *Names) Key(i int) string {
	begin := uint32(0)
	if i > 0 {
		begin = n.ends[i-1]
	}
	return n.text[begin:n.ends[i]]
}

// Bytes returns the memory that the names hold.
func (n *Names) Bytes() int64 { return int64(len(n.text)) + int64(4*cap(n.ends)) + 128 }

// Parts are those of a chunk's samples, in stored order. Each name that they have is kept once.
type Parts struct {
	names []string
	parts []packedPart
	ends  []uint32 // in parts, by sample
	bytes int64    // of the names
}

type packedPart struct{ name, offset, length, crc uint32 }

// Append appends the parts of sample i of the chunk, in stored order.
func (p *Parts) Append(dst []Part, i int) []Part {
	begin := uint32(0)
	if i > 0 {
		begin = p.ends[i-1]
	}
	for _, q := range p.parts[begin:p.ends[i]] {
		dst = append(dst, Part{p.names[q.name], q.offset, q.length, q.crc})
	}
	return dst
}

// Bytes returns the memory that the parts hold.
func (p *Parts) Bytes() int64 {
	return p.bytes + int64(16*cap(p.names)+16*cap(p.parts)+4*cap(p.ends)) + 192
}

// Names returns the keys of all samples of a chunk, from the cache or from the index, checked.
func (x *Index) Names(ctx context.Context, chunk int) (*Names, error) {
	return detail(ctx, x, secNames, chunk, func(b []byte) (*Names, error) {
		n := uint32(x.first[chunk+1] - x.first[chunk])
		names := &Names{ends: make([]uint32, 0, n)}
		rule := x.rule(chunk)
		text := make([]byte, 0, max(len(b), int(n)*(len(rule.stem)+10)))
		err := eachKey(b, n, rule, func(_ uint32, key []byte) error {
			text = append(text, key...)
			names.ends = append(names.ends, uint32(len(text)))
			return nil
		})
		names.text = string(text)
		return names, err
	})
}

// Parts returns the parts of all samples of a chunk, from the cache or from the index, checked.
func (x *Index) Parts(ctx context.Context, chunk int) (*Parts, error) {
	return detail(ctx, x, secParts, chunk, func(b []byte) (*Parts, error) {
		t, err := x.Table(ctx, chunk)
		if err != nil {
			return nil, err
		}
		return decodeParts(b, t)
	})
}

// PartNames returns the names that parts of a chunk's samples have, each once. What is read for it is not kept: who goes through
// all chunks must not drive out what batches need.
func (x *Index) PartNames(ctx context.Context, chunk int) ([]string, error) {
	unkept := *x
	unkept.tables = nil
	p, err := unkept.Parts(ctx, chunk)
	if err != nil {
		return nil, err
	}
	return p.names, nil
}

// detail returns what a section says of a chunk.
func detail[T Cached](ctx context.Context, x *Index, sec, chunk int, decode func([]byte) (T, error)) (d T, err error) {
	key := CacheKey{Section: sec, Chunk: chunk}
	if x.tables != nil {
		if kept, ok := x.tables.Get(key); ok {
			return kept.(T), nil
		}
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	b, err := x.block(ctx, sec, chunk)
	if err == nil {
		d, err = decode(b)
	}
	if err != nil {
		return d, fmt.Errorf("index %.12s: chunk %d: %w", x.digest, chunk, err)
	}
	if x.tables != nil {
		x.tables.Add(key, d)
	}
	return d, nil
}

// eachName calls visit for every key of a names block of n samples.
func eachName(block []byte, n uint32, visit func(i uint32, key []byte) error) error {
	for i := range n {
		size, w := binary.Uvarint(block)
		if w <= 0 || size > format.MaxKey || size > uint64(len(block)-w) {
			return fmt.Errorf("names: sample %d: %w", i, errMalformed)
		}
		if err := visit(i, block[w:w+int(size)]); err != nil {
			return err
		}
		block = block[w+int(size):]
	}
	if len(block) != 0 {
		return fmt.Errorf("names: %d bytes too many: %w", len(block), errMalformed)
	}
	return nil
}

// decodePlainParts reads all parts of samples whose lengths are known. The parts of a sample ascend and do not overlap.
func decodePlainParts(block []byte, lengths []uint32) (*Parts, error) {
	all := &Parts{ends: make([]uint32, len(lengths))}
	numbers := map[string]uint32{}
	for i, sample := range lengths {
		count, w := binary.Uvarint(block)
		// A part takes seven bytes at least, so no count can ask for more than the block can hold.
		if w <= 0 || count > uint64(len(block)-w)/7 {
			return nil, fmt.Errorf("parts: sample %d: %w", i, errMalformed)
		}
		if i == 0 { // most samples of a chunk have as many parts as the first
			all.parts = make([]packedPart, 0, min(int(count)*len(lengths), len(block)/7))
		}
		block = block[w:]
		var end uint32
		for range count {
			name, part, rest, err := decodePart(block, sample)
			if err == nil && part.offset < end {
				err = errMalformed
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
		return nil, fmt.Errorf("parts: %d bytes too many: %w", len(block), errMalformed)
	}
	return all, nil
}

// number returns the place of a name among those that are kept.
func (p *Parts) number(numbers map[string]uint32, name []byte) uint32 {
	n, known := numbers[string(name)]
	if !known {
		n = uint32(len(p.names))
		s := string(name)
		numbers[s] = n
		p.names, p.bytes = append(p.names, s), p.bytes+int64(len(s))
	}
	return n
}

// decodePart reads a part of a sample of so many bytes.
func decodePart(b []byte, sample uint32) (name []byte, p packedPart, rest []byte, err error) {
	size, w := binary.Uvarint(b)
	if w <= 0 || size > format.MaxKey || size > uint64(len(b)-w) {
		return nil, p, nil, errMalformed
	}
	name, b = b[w:w+int(size)], b[w+int(size):]
	off, w := binary.Uvarint(b)
	if w <= 0 {
		return nil, p, nil, errMalformed
	}
	b = b[w:]
	length, w := binary.Uvarint(b)
	if w <= 0 || len(b)-w < 4 || off > uint64(sample) || length > uint64(sample)-off {
		return nil, p, nil, errMalformed
	}
	b = b[w:]
	p = packedPart{offset: uint32(off), length: uint32(length), crc: binary.LittleEndian.Uint32(b)}
	return name, p, b[4:], nil
}
