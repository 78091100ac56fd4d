package selection

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// A split (see docs/spec/index-format.md) consists of a header, a rule, one row per chunk, and one
// block per chunk.
const (
	splitMagic   = "MRSUBSET"
	splitVersion = 1 // a rule assigns samples by their keys
	shardVersion = 2 // a rule assigns samples by their shards' keys
	listVersion  = 3 // a list assigns samples
	splitHeader  = 84
	maxRule      = 16 << 10
	maxChunks    = 1 << 25
	maxSamples   = 1 << 40
)

// castagnoli returns the CRC-32C table, which the standard library caches.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// head is a split's header.
type head struct {
	version    uint32
	parts      uint32 // number of subsets
	generation string
	samples    uint64
	chunks     uint64
	rule       uint32 // bytes
	ruleCRC    uint32
	tableCRC   uint32
}

func (h *head) encode() ([]byte, error) {
	generation, err := hex.DecodeString(h.generation)
	if err != nil || len(generation) != 32 {
		return nil, fmt.Errorf("generation %q is not a digest", h.generation)
	}
	b := make([]byte, 0, splitHeader)
	b = append(b, splitMagic...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint32(b, h.parts)
	b = append(b, generation...)
	b = binary.LittleEndian.AppendUint64(b, h.samples)
	b = binary.LittleEndian.AppendUint64(b, h.chunks)
	for _, v := range []uint32{h.rule, h.ruleCRC, h.tableCRC, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli())), nil
}

// decodeHead decodes a header and checks all that the header itself determines.
func decodeHead(b []byte) (*head, error) {
	if len(b) != splitHeader || string(b[:8]) != splitMagic {
		return nil, corrupt("not a split")
	}
	if crc32.Checksum(b[:splitHeader-4], castagnoli()) != binary.LittleEndian.Uint32(b[splitHeader-4:]) {
		return nil, corrupt("header: checksum is wrong")
	}
	half := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	v := half(8)
	if v < splitVersion || v > listVersion {
		return nil, fmt.Errorf("split of version %d: %w", v, ErrVersion)
	}
	h := &head{
		version: v, parts: half(12), generation: hex.EncodeToString(b[16:48]), samples: binary.LittleEndian.Uint64(b[48:]), chunks: binary.LittleEndian.Uint64(b[56:]),
		rule: half(64), ruleCRC: half(68), tableCRC: half(72),
	}
	switch {
	case h.parts == 0 || h.parts > maxParts || h.rule == 0 || h.rule > maxRule || half(76) != 0:
		return nil, corrupt("header: invalid numbers: %d subsets, rule of %d bytes", h.parts, h.rule)
	case h.samples > maxSamples || h.chunks > maxChunks:
		return nil, corrupt("header: invalid numbers: %d samples in %d chunks", h.samples, h.chunks)
	}
	return h, nil
}

// row returns the length of a chunk's row. table and blocks return the offsets of the table and of
// the first block. block returns the length of the block of a chunk of n samples.
func (h *head) row() int64                   { return 4*int64(h.parts) + 4 }
func (h *head) table() int64                 { return splitHeader + int64(h.rule) }
func (h *head) blocks() int64                { return h.table() + h.row()*int64(h.chunks) }
func (h *head) block(n uint64) int64         { return int64(h.parts) * bitmapSize(n) }
func bitmapSize(n uint64) int64              { return int64((n + 7) / 8) }
func chunkSize(first []uint64, i int) uint64 { return first[i+1] - first[i] }

// fits checks that a header and an object size match a dataset, before any allocation or download.
// first contains the prefix sums of the dataset's chunk sample counts.
func (h *head) fits(first []uint64, size int64) error {
	if h.chunks != uint64(len(first)-1) || h.samples != first[len(first)-1] {
		return corrupt("it has %d samples in %d chunks, but the dataset has %d in %d", h.samples, h.chunks, first[len(first)-1], len(first)-1)
	}
	end := h.blocks()
	for i := range len(first) - 1 {
		end += h.block(chunkSize(first, i))
	}
	if end != size {
		return corrupt("it has %d bytes instead of %d", size, end)
	}
	return nil
}

// checkBitmap validates the bitmap of one subset of a chunk of n samples against its count.
func checkBitmap(b []byte, n, members uint64) error {
	if n%8 != 0 && b[n/8]>>(n%8) != 0 {
		return corrupt("a chunk has bits beyond its last sample")
	}
	found := uint64(0)
	for _, x := range b {
		found += uint64(bits.OnesCount8(x))
	}
	if found != members {
		return corrupt("a chunk has %d members instead of %d", found, members)
	}
	return nil
}
