package chunkindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Part is a piece of a sample that a format can name, such as one member of a tar sample.
type Part struct {
	Ext    string
	Offset uint32 // in the sample
	Length uint32
	CRC32C uint32
}

// chunkRecord is everything an index says of one chunk, on its way from a scan into an index.
type chunkRecord struct {
	extents []Extent
	length  int64
	crc     uint32
	digest  [32]byte
	samples uint32
	bytes   int64  // of all samples
	longest int64  // sample
	table   []byte // 12 bytes a sample: offset, length, CRC-32C
	names   []byte // per sample: uvarint length, key
	parts   []byte // per sample: uvarint count, parts
}

func (r *chunkRecord) reset() {
	*r = chunkRecord{extents: r.extents[:0], table: r.table[:0], names: r.names[:0], parts: r.parts[:0]}
}

// check holds a record that somebody kept to what a scan of a shard of this size can say. end is
// where the chunk before it ends.
func (r *chunkRecord) check(end *int64, shard int64) error {
	if r.samples == 0 || r.length <= 0 || r.length > maxChunkSize {
		return errMalformed
	}
	left := r.length
	for _, e := range r.extents {
		if e.Offset < *end || e.Length <= 0 || e.Length > left || e.Offset > shard-e.Length {
			return fmt.Errorf("extent outside its shard, or overlapping: %w", errMalformed)
		}
		*end = e.Offset + e.Length
		left -= e.Length
	}
	if left != 0 {
		return fmt.Errorf("extents do not add up: %w", errMalformed)
	}
	t, err := decodeTable(r.table, r.length, maxChunkSize)
	if err != nil {
		return err
	}
	if err := eachName(r.names, r.samples, func(uint32, []byte) error { return nil }); err != nil {
		return err
	}
	_, err = decodeParts(r.parts, t.Length)
	return err
}

func appendPart(b []byte, p Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Ext)))
	b = append(b, p.Ext...)
	b = binary.AppendUvarint(b, uint64(p.Offset))
	b = binary.AppendUvarint(b, uint64(p.Length))
	return binary.LittleEndian.AppendUint32(b, p.CRC32C)
}

var errMalformed = errors.New("malformed")

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

// decodeParts reads the parts block of samples whose lengths are known. The parts of a sample ascend and do not overlap.
func decodeParts(block []byte, lengths []uint32) ([][]Part, error) {
	all := make([][]Part, len(lengths))
	for i := range all {
		count, w := binary.Uvarint(block)
		// A part takes seven bytes at least, so no count can ask for more than the block can hold.
		if w <= 0 || count > uint64(len(block)-w)/7 {
			return nil, fmt.Errorf("parts: sample %d: %w", i, errMalformed)
		}
		block = block[w:]
		parts := make([]Part, count)
		var end uint32
		for j := range parts {
			rest, err := decodePart(&parts[j], block, lengths[i])
			if err == nil && parts[j].Offset < end {
				err = errMalformed
			}
			if err != nil {
				return nil, fmt.Errorf("parts: sample %d: %w", i, err)
			}
			end, block = parts[j].Offset+parts[j].Length, rest
		}
		all[i] = parts
	}
	if len(block) != 0 {
		return nil, fmt.Errorf("parts: %d bytes too many: %w", len(block), errMalformed)
	}
	return all, nil
}

func decodePart(p *Part, b []byte, sample uint32) ([]byte, error) {
	size, w := binary.Uvarint(b)
	if w <= 0 || size > format.MaxKey || size > uint64(len(b)-w) {
		return nil, errMalformed
	}
	p.Ext = string(b[w : w+int(size)])
	b = b[w+int(size):]
	off, w := binary.Uvarint(b)
	if w <= 0 {
		return nil, errMalformed
	}
	b = b[w:]
	length, w := binary.Uvarint(b)
	if w <= 0 || len(b)-w < 4 || off > uint64(sample) || length > uint64(sample)-off {
		return nil, errMalformed
	}
	p.Offset, p.Length, p.CRC32C = uint32(off), uint32(length), binary.LittleEndian.Uint32(b[w:])
	return b[w+4:], nil
}

// decodeTable reads a sample table and checks that samples ascend, do not overlap and
// lie inside the chunk.
func decodeTable(b []byte, chunk int64, longest int64) (*Table, error) {
	n := len(b) / 12
	all := make([]uint32, 3*n)
	t := &Table{Offset: all[:n:n], Length: all[n : 2*n : 2*n], CRC32C: all[2*n:]}
	var end int64
	for i := range n {
		off, length := binary.LittleEndian.Uint32(b[12*i:]), binary.LittleEndian.Uint32(b[12*i+4:])
		if int64(off) < end || length == 0 || int64(length) > longest || int64(off)+int64(length) > chunk {
			return nil, fmt.Errorf("sample table: sample %d: %w", i, errMalformed)
		}
		end = int64(off) + int64(length)
		t.Offset[i], t.Length[i], t.CRC32C[i] = off, length, binary.LittleEndian.Uint32(b[12*i+8:])
	}
	return t, nil
}

// seal appends a block's CRC-32C; unseal checks it and takes it off.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

func unseal(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, errMalformed
	}
	n := len(b) - 4
	if crc32.Checksum(b[:n], castagnoli()) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, errors.New("checksum is wrong")
	}
	return b[:n], nil
}
