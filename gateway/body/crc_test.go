package body

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineCRC(t *testing.T) {
	tables := newCRCTables()
	random := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	whole := crc32.Checksum(data, castagnoli())
	for _, cut := range []int{0, 1, 2, 3, 511, 512, 1024, 4096, 99999, 1<<20 - 1024, 1<<20 - 1, 1 << 20} {
		a, b := crc32.Checksum(data[:cut], castagnoli()), crc32.Checksum(data[cut:], castagnoli())
		if got := tables.combine(a, b, uint32(len(data)-cut)); got != whole {
			t.Errorf("cut at %d: got %08x, want %08x", cut, got, whole)
		}
	}
	// Advancing by 2^31 zero bytes equals advancing by 2^30 zero bytes twice.
	once := tables.combine(whole, 0, 1<<31)
	if twice := tables.combine(tables.combine(whole, 0, 1<<30), 0, 1<<30); once != twice {
		t.Errorf("got %08x after 2^31 zeros, want %08x", once, twice)
	}
}
