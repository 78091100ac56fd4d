package body

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// wide is the bytes of an integer that stands for one of fewer.
const wide = 4

// narrow returns the type of an integer of one or two bytes that Parquet stores in four. Numbers are little-endian, so the first bytes of
// the stored value are the value.
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

// narrowed returns the first bytes of a part of four. Their checksum follows from that of the part, because CRC-32C takes the strings of
// four bytes to 32 bits one to one: no data is read for it.
func narrowed(p part, width uint32) part {
	value := fourBytes(p.CRC32C)
	p.Length, p.CRC32C = width, Checksum(value[:width])
	return p
}

// fourBytes returns the four bytes that have a CRC-32C. It runs the checksum backwards.
func fourBytes(sum uint32) (b [4]byte) {
	v := ^sum
	for range 32 {
		if v>>31 == 1 { // the polynomial was added, whose highest bit is set
			v = (v^crc32.Castagnoli)<<1 | 1
		} else {
			v <<= 1
		}
	}
	binary.LittleEndian.PutUint32(b[:], ^v)
	return b
}
