package framing

import (
	"encoding/binary"
	"fmt"
	"math"
)

// OffsetTable returns the bytes before the samples of a shard: the table of their offsets, then the
// header. It fails if the shard is longer than the largest offset.
func OffsetTable(header []byte, lengths []uint32) ([]byte, error) {
	at := 8 + 4*uint64(len(lengths)) + uint64(len(header))
	b := make([]byte, 0, at)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(lengths)))
	for _, n := range lengths {
		b = binary.LittleEndian.AppendUint32(b, uint32(min(at, math.MaxUint32)))
		at += uint64(n)
	}
	if at > math.MaxUint32 {
		return nil, fmt.Errorf("the %d samples of the batch make a shard of %d bytes, more than the format's limit of %d: use a smaller batch", len(lengths), at, uint32(math.MaxUint32))
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(at)), header...), nil
}
