package chunkindex

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The index file, as docs/index-format.md draws it: header, digests of pages, sections.
const (
	indexMagic   = "MILLRACE"
	indexVersion = 2
	countsSize   = 64 // of the header: magic, version, counts
	entrySize    = 24 // of the header's list of sections
	headerSize   = countsSize + numSections*entrySize + 8 + sha256.Size
	chunkSize    = 56 // bytes of a record of the chunk table
	extentSize   = 20
	leastShard   = 13   // bytes of a shard whose key has one
	blockRow     = 32   // of section 6: an offset for each of blockSections
	pageSize     = 4096 // of the hash section
	pageRecords  = 255
	pageCRC      = pageSize - 4
)

// The sections, in the order of their numbers.
const (
	secMeta = iota
	secShards
	secChunks
	secExtents
	secTables
	secBlocks
	secNames
	secParts
	secHash
	secDecoding
	secDigests
	numSections
)

// Limits of an index, beyond which it is refused.
const (
	maxShards    = 1 << 24
	maxChunks    = 1 << 25
	maxSamples   = 1 << 40
	maxParts     = 1 << 50 // of all samples
	maxChunkSize = 1 << 30
	maxMeta      = 4 << 20  // bytes; the constants of 10,000 columns or leaves with names of 100 bytes
	maxTable     = 64 << 20 // one chunk's sample table, names, parts or parameters
	maxSections  = 1 << 10  // of any version
	maxObjectKey = 1024     // of a shard
)

type section struct {
	offset, length int64
}

func (s section) end() int64 { return s.offset + s.length }

type header struct {
	shards uint64
	totals
	digest   [sha256.Size]byte // of the digests of pages
	sections [numSections]section
}

func hashPages(samples uint64) uint64 { return (samples + pageRecords - 1) / pageRecords }

// blockSections are the sections of blocks, in the order in which a row of section 6 has their offsets.
func blockSections() []int { return []int{secTables, secNames, secParts, secDecoding} }

// storedOrder is the order in which the sections lie behind the digests. Those that are fetched when an index is opened come first.
func storedOrder() []int {
	return []int{secMeta, secShards, secChunks, secExtents, secBlocks, secTables, secNames, secParts, secHash, secDecoding}
}

// place computes where the sections lie, from the counts in the header.
func (h *header) place(meta, shards int64) {
	n := int64(h.chunks)
	lengths := [numSections]int64{
		secMeta: meta, secShards: shards, secChunks: chunkSize * n, secExtents: extentSize * int64(h.extents),
		secTables: int64(h.tables), secBlocks: blockRow * (n + 1),
		secNames: int64(h.names), secParts: int64(h.parts),
		secHash: pageSize * int64(hashPages(h.hashed())), secDecoding: int64(h.params),
	}
	var body int64
	for _, n := range lengths {
		body += n
	}
	h.sections[secDigests] = section{offset: headerSize, length: digestsSize(body)}
	at := h.sections[secDigests].end()
	for _, i := range storedOrder() {
		h.sections[i] = section{offset: at, length: lengths[i]}
		at += lengths[i]
	}
}

// hashed returns how many samples the hash section has: all of them, or none where all names follow from a rule.
func (h *header) hashed() uint64 {
	if h.listed == 0 {
		return 0
	}
	return h.samples
}

// size of the whole file.
func (h *header) size() int64 { return h.sections[secDecoding].end() }

func (h *header) encode() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, indexVersion)
	b = binary.LittleEndian.AppendUint32(b, numSections)
	for _, v := range []uint64{h.shards, h.chunks, h.extents, h.samples, uint64(h.bytes), uint64(h.longest)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for i, s := range h.sections {
		b = binary.LittleEndian.AppendUint32(b, uint32(i+1))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.length))
	}
	b = binary.LittleEndian.AppendUint64(b, h.partCount)
	return append(b, h.digest[:]...)
}

// decodeHeader checks everything that the header alone, and the file's size, can say.
func decodeHeader(b []byte, size int64) (*header, error) {
	if len(b) != headerSize || binary.LittleEndian.Uint32(b[8:]) != indexVersion || binary.LittleEndian.Uint32(b[12:]) != numSections {
		return nil, fmt.Errorf("header: %w", errMalformed)
	}
	h := new(header)
	if err := h.decodeCounts(b); err != nil {
		return nil, err
	}
	last := b[countsSize+numSections*entrySize:]
	h.partCount = binary.LittleEndian.Uint64(last)
	copy(h.digest[:], last[8:])
	if h.partCount > maxParts {
		return nil, errors.New("header: a count is beyond the limits")
	}
	return h, h.decodeSections(b[countsSize:], size)
}

// decodeCounts reads the counts.
func (h *header) decodeCounts(b []byte) error {
	var v [6]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[16+8*i:])
	}
	h.shards, h.totals = v[0], totals{chunks: v[1], extents: v[2], samples: v[3]}
	if v[0] > maxShards || v[1] > maxChunks || v[2] > maxSamples || v[3] > maxSamples || v[4] > math.MaxInt64 || v[5] > math.MaxInt64 {
		return errors.New("header: a count is beyond the limits")
	}
	h.bytes, h.longest = int64(v[4]), int64(v[5])
	// No sample is empty, and none is longer than the longest.
	if h.chunks > h.samples || h.extents < h.chunks || h.longest > h.bytes || h.longest > maxChunkSize ||
		h.samples > v[4] || (h.samples == 0 && h.bytes > 0) || (h.samples > 0 && (v[4]-1)/h.samples >= v[5]) {
		return fmt.Errorf("header: counts: %w", errMalformed)
	}
	return nil
}

// decodeEntries reads the list of sections, of which each must lie in the file.
func (h *header) decodeEntries(b []byte, size int64) error {
	for i := range h.sections {
		e := b[entrySize*i:]
		off, length := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if binary.LittleEndian.Uint64(e) != uint64(i+1) || off > uint64(size) || length > uint64(size)-off {
			return fmt.Errorf("section %d: %w", i+1, errMalformed)
		}
		h.sections[i] = section{offset: int64(off), length: int64(length)}
	}
	return nil
}

// decodeSections checks that the sections follow each other without a gap and that their
// lengths are those which the counts ask for.
func (h *header) decodeSections(b []byte, size int64) error {
	if err := h.decodeEntries(b, size); err != nil {
		return err
	}
	h.tables, h.names = uint64(h.sections[secTables].length), uint64(h.sections[secNames].length)
	h.parts, h.params = uint64(h.sections[secParts].length), uint64(h.sections[secDecoding].length)
	if h.sections[secHash].length > 0 {
		h.listed = h.samples
	}
	want := *h
	want.place(h.sections[secMeta].length, h.sections[secShards].length)
	for i := range h.sections {
		if want.sections[i] != h.sections[i] {
			return fmt.Errorf("section %d: %w", i+1, errMalformed)
		}
	}
	// A sample takes four bytes of its table, a chunk five.
	if h.size() != size || h.sections[secMeta].length > maxMeta || h.tables/4 < h.samples || h.listed == 0 && h.names > 0 {
		return fmt.Errorf("sections: %w", errMalformed)
	}
	return nil
}
