package layout

import (
	"encoding/binary"
	"testing"
)

// FuzzParts decodes arbitrary parts blocks of two samples. Accepted parts must be within their
// sample and in order. They must not use more memory than the block justifies.
func FuzzParts(f *testing.F) {
	one := AppendPart([]byte{1}, Part{Ext: "jpg", Offset: 3, Length: 7})
	f.Add(append(one, 0), uint32(10), uint32(1))
	f.Add(append(one, one...), uint32(10), uint32(10))
	f.Add(binary.AppendUvarint(nil, 1<<63), uint32(1), uint32(1))
	f.Fuzz(func(t *testing.T, block []byte, a, b uint32) {
		lengths := []uint32{a, b}
		all, err := decodePlainParts(block, &Table{lengths: lengths, crcs: make([]uint32, 2)})
		if err != nil {
			return
		}
		if n := all.Bytes(); n > 1024+16*int64(len(block)) {
			t.Errorf("got %d bytes held for a block of %d", n, len(block))
		}
		for i, length := range lengths {
			end := uint64(0)
			for _, p := range all.Append(nil, i) {
				if uint64(p.Offset) < end || uint64(p.Offset)+uint64(p.Length) > uint64(length) {
					t.Errorf("sample %d of %d bytes: got %+v after %d", i, length, p, end)
				}
				end = uint64(p.Offset) + uint64(p.Length)
			}
		}
	})
}
