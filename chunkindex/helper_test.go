package chunkindex

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func le32(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }

func putCRC(dst, of []byte) {
	binary.LittleEndian.PutUint32(dst, crc32.Checksum(of, layout.Castagnoli()))
}
