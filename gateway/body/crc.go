package body

import (
	"hash/crc32"
	"math/bits"
)

// crcTables advance a CRC-32C over runs of zero bytes: table k over 2^k of them, by eight
// look-ups of a nibble each. 16 KiB.
type crcTables [32][8][16]uint32

// castagnoli returns the table of CRC-32C. The standard library makes it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli()) }

// newCRCTables starts from one zero byte and squares: advancing by 2^k bytes twice is advancing by 2^(k+1).
func newCRCTables() *crcTables {
	t := new(crcTables)
	for k := range t {
		for nibble := range 8 {
			for bit := range 4 {
				v := uint32(1) << (4*nibble + bit)
				if k == 0 {
					v = v>>8 ^ castagnoli()[byte(v)]
				} else {
					v = t.step(k-1, t.step(k-1, v))
				}
				for i := range 16 {
					if i>>bit&1 == 1 {
						t[k][nibble][i] ^= v
					}
				}
			}
		}
	}
	return t
}

// step advances v over 2^k zero bytes. The entries are added in pairs, so that they need not wait for each other.
func (t *crcTables) step(k int, v uint32) uint32 {
	s := &t[k]
	return ((s[0][v&15] ^ s[1][v>>4&15]) ^ (s[2][v>>8&15] ^ s[3][v>>12&15])) ^
		((s[4][v>>16&15] ^ s[5][v>>20&15]) ^ (s[6][v>>24&15] ^ s[7][v>>28]))
}

// combineLong is combine for a second string of any length.
func (t *crcTables) combineLong(first, second uint32, length int64) uint32 {
	const most = 1 << 31
	for ; length > most; length -= most {
		first = t.step(31, first)
	}
	return t.combine(first, second, uint32(length))
}

// combine returns the CRC-32C of two byte strings one after the other, from that of the first, that of the
// second, and the length of the second: the bytes are not needed.
func (t *crcTables) combine(first, second, length uint32) uint32 {
	for ; length != 0; length &= length - 1 {
		first = t.step(bits.TrailingZeros32(length), first)
	}
	return first ^ second
}
