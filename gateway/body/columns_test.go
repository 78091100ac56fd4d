package body

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestSmallValue: a checksum and a length of at most four bytes determine the bytes.
func TestSmallValue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		b := binary.LittleEndian.AppendUint32(nil, random.Uint32())[:i%5]
		if got := smallValue(Checksum(b), len(b)); !bytes.Equal(got[:len(b)], b) {
			t.Fatalf("got %x, want %x", got[:len(b)], b)
		}
	}
}
