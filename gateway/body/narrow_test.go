package body

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// TestNarrowed: the checksum of the first bytes, computed from the checksum of all four bytes, is
// correct for any four bytes.
func TestNarrowed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		b := binary.LittleEndian.AppendUint32(nil, random.Uint32())
		if i < 4 {
			b = []byte{0, 0, 0, byte(i) * 85}
		}
		for width := range uint32(4) {
			p := narrowed(part{Part: chunkindex.Part{Offset: 7, Length: 4, CRC32C: Checksum(b)}}, width).Part
			if want := (chunkindex.Part{Offset: 7, Length: width, CRC32C: Checksum(b[:width])}); p != want {
				t.Fatalf("%x: got %+v, want %+v", b, p, want)
			}
		}
	}
}

// TestNarrow: only a part stored as a 32-bit integer has a shorter integer type.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		field format.Field
		width int
	}{
		{format.Field{Encoding: format.Raw, Type: "int32", Logical: "int8"}, 1},
		{format.Field{Encoding: format.Raw, Type: "uint32", Logical: "uint16"}, 2},
		{format.Field{Encoding: format.Raw, Type: "int32"}, 0},
		{format.Field{Encoding: format.Raw, Type: "list<int32>", Logical: "list<int8>"}, 0},
		{format.Field{Encoding: format.Raw, Type: "int32", Logical: "null"}, 0},
		{format.Field{Encoding: format.Raw, Type: "fixed_size_binary[16]", Logical: "uuid"}, 0},
		{format.Field{Encoding: format.Raw, Type: "int32", Logical: "int8", Shape: []uint64{2}}, 0},
	} {
		if got, ok := narrow(c.field); ok != (c.width > 0) || got.Width() != c.width {
			t.Errorf("%+v: got %+v, %v, want %d bytes", c.field, got, ok, c.width)
		}
	}
}
