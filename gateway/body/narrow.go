package body

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// wide is the stored size of an integer with a smaller logical type.
const wide = 4

// narrow returns the type of an 8-bit or 16-bit integer that Parquet stores in four bytes. Numbers
// are little-endian, so the first bytes of the stored value are the value.
func narrow(f format.Field) (t arrow.Type, ok bool) {
	if f.Encoding != format.Raw || f.Type != "int32" && f.Type != "uint32" || f.Shape != nil {
		return t, false
	}
	switch f.Logical {
	case "int8", "int16", "uint8", "uint16":
		return arrow.ParseType(f.Logical)
	}
	return t, false
}

// narrowed returns the first width bytes of a four-byte part. Their checksum follows from the
// part's checksum without reading data, because CRC-32C maps four-byte strings to 32 bits one to
// one.
func narrowed(p part, width uint32) part {
	value := fourBytes(p.CRC32C)
	p.Length, p.CRC32C = width, Checksum(value[:width])
	return p
}

// fourBytes returns the four bytes with a given CRC-32C, by running the checksum backwards.
func fourBytes(sum uint32) (b [4]byte) {
	v := ^sum
	for range 32 {
		if v>>31 == 1 { // the polynomial, whose highest bit is set, was added
			v = (v^crc32.Castagnoli)<<1 | 1
		} else {
			v <<= 1
		}
	}
	binary.LittleEndian.PutUint32(b[:], ^v)
	return b
}
