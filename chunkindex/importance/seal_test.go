package importance

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// reseal makes the checksum of a report right, whatever the rest says.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	n := len(b) - 4
	binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], castagnoli()))
	return b
}
