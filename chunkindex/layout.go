package chunkindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The index file, as docs/index-format.md draws it: header, sections, footer. An index of version 1 lacks the last section.
const (
	indexMagic   = "MILLRACE"
	footerMagic  = "ECARLLIM"
	indexVersion = 2
	countsSize   = 64 // of the header, before its list of sections
	minHeader    = countsSize + (numSections-1)*24 + 8
	footerSize   = 48
	chunkSize    = 64 // bytes of a record of the chunk table
	extentSize   = 24
	pageSize     = 4096 // of the hash section
	pageRecords  = 255
	pageCRC      = pageSize - 4
)

// The sections, in the order in which they lie in the file.
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
	numSections
)

// Limits of an index, beyond which it is refused.
const (
	maxShards     = 1 << 24
	maxChunks     = maxChunkTable / chunkSize
	maxSamples    = 1 << 40
	maxChunkSize  = 1 << 30
	maxMeta       = 4 << 20  // bytes; the constants of 10,000 columns or leaves with names of 100 bytes
	maxChunkTable = 2 << 30  // bytes
	maxTable      = 64 << 20 // one chunk's sample table, names or parts
	maxObjectKey  = 1024     // of a shard
)

type section struct {
	crc            uint32 // of the whole section, where it is checked when the index is opened; else 0
	offset, length int64
}

type header struct {
	version uint32
	shards  uint64
	totals
	sections [numSections]section
}

func hashPages(samples uint64) uint64 { return (samples + pageRecords - 1) / pageRecords }

// count returns how many sections there are.
func (h *header) count() int {
	if h.version == 1 {
		return numSections - 1
	}
	return numSections
}

// length of the header itself.
func (h *header) length() int64 { return countsSize + 24*int64(h.count()) + 8 }

// blockRow is the length of a row of section 6: an offset for each section of blocks.
func (h *header) blockRow() int64 { return 8 * int64(h.count()-secHash+1) }

// blockSections are the sections of blocks, in the order in which a row of section 6 has their offsets.
func blockSections() []int { return []int{secNames, secParts, secDecoding} }

// place computes where the sections lie, from the counts in the header.
func (h *header) place(meta, shards int64) {
	n, e, s := int64(h.chunks), int64(h.extents), int64(h.samples)
	lengths := [numSections]int64{
		secMeta: meta, secShards: shards, secChunks: chunkSize * n, secExtents: extentSize * e,
		secTables: 12*s + 4*n, secBlocks: h.blockRow() * (n + 1),
		secNames: int64(h.names) + 4*n, secParts: int64(h.parts) + 4*n,
		secHash: pageSize * int64(hashPages(h.samples)), secDecoding: int64(h.params) + 4*n,
	}
	at := h.length()
	for i := range h.count() {
		h.sections[i].offset, h.sections[i].length = at, lengths[i]
		at += lengths[i]
	}
}

// size of the whole file.
func (h *header) size() int64 {
	last := h.sections[h.count()-1]
	return last.offset + last.length + footerSize
}

func (h *header) encode() []byte {
	b := make([]byte, 0, h.length())
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.count()))
	for _, v := range []uint64{h.shards, h.chunks, h.extents, h.samples, uint64(h.bytes), uint64(h.longest)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for i, s := range h.sections[:h.count()] {
		b = binary.LittleEndian.AppendUint32(b, uint32(i+1))
		b = binary.LittleEndian.AppendUint32(b, s.crc)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.length))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// decodeHeader checks everything that the header alone, and the file's size, can say.
func decodeHeader(b []byte, size int64) (*header, error) {
	if len(b) < minHeader || string(b[:8]) != indexMagic {
		return nil, errors.New("not an index")
	}
	h := &header{version: binary.LittleEndian.Uint32(b[8:])}
	if h.version > indexVersion {
		return nil, newer("version", h.version)
	}
	end := h.length()
	if h.version < 1 || int64(len(b)) < end {
		return nil, fmt.Errorf("header: %w", errMalformed)
	}
	b = b[:end]
	if crc32.Checksum(b[:end-8], castagnoli()) != binary.LittleEndian.Uint32(b[end-8:]) {
		return nil, errors.New("header checksum is wrong")
	}
	if binary.LittleEndian.Uint32(b[12:]) != uint32(h.count()) || binary.LittleEndian.Uint32(b[end-4:]) != 0 {
		return nil, fmt.Errorf("header: %w", errMalformed)
	}
	var v [6]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[16+8*i:])
	}
	h.shards, h.totals = v[0], totals{chunks: v[1], extents: v[2], samples: v[3]}
	if v[0] > maxShards || v[1] > maxChunks || v[2] > maxSamples || v[3] > maxSamples || v[4] > math.MaxInt64 || v[5] > math.MaxInt64 {
		return nil, errors.New("header: a count is beyond the limits")
	}
	h.bytes, h.longest = int64(v[4]), int64(v[5])
	// No sample is empty, and none is longer than the longest.
	if h.chunks > h.samples || h.extents < h.chunks || h.longest > h.bytes || h.longest > maxChunkSize ||
		h.samples > v[4] || (h.samples == 0 && h.bytes > 0) || (h.samples > 0 && (v[4]-1)/h.samples >= v[5]) {
		return nil, fmt.Errorf("header: counts: %w", errMalformed)
	}
	return h, h.decodeSections(b[countsSize:], size)
}

// decodeSections checks that the sections follow each other without a gap and that their
// lengths are those which the counts ask for.
func (h *header) decodeSections(b []byte, size int64) error {
	for i := range h.count() {
		e := b[24*i:]
		off, length := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if binary.LittleEndian.Uint32(e) != uint32(i+1) || off > uint64(size) || length > uint64(size)-off {
			return fmt.Errorf("section %d: %w", i+1, errMalformed)
		}
		h.sections[i] = section{crc: binary.LittleEndian.Uint32(e[4:]), offset: int64(off), length: int64(length)}
	}
	n := int64(h.chunks)
	h.names = uint64(h.sections[secNames].length - 4*n)
	h.parts = uint64(h.sections[secParts].length - 4*n)
	if h.version > 1 {
		h.params = uint64(h.sections[secDecoding].length - 4*n)
	}
	want := *h
	if int64(h.names) < 0 || int64(h.parts) < 0 || int64(h.params) < 0 {
		return fmt.Errorf("sections: %w", errMalformed)
	}
	want.place(h.sections[secMeta].length, h.sections[secShards].length)
	for i := range h.count() {
		if want.sections[i].offset != h.sections[i].offset || want.sections[i].length != h.sections[i].length {
			return fmt.Errorf("section %d: %w", i+1, errMalformed)
		}
	}
	if want.size() != size || h.sections[secMeta].length > maxMeta {
		return fmt.Errorf("sections: %w", errMalformed)
	}
	return nil
}

func encodeFooter(digest []byte, size int64) []byte {
	b := append(make([]byte, 0, footerSize), digest...)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	return append(b, footerMagic...)
}
