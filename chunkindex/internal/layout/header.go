// Package layout defines the binary format of an index and of its companion objects, as specified
// in docs/spec/index-format.md. It is shared by the reader (chunkindex) and the writer
// (chunkindex/build); no other package imports it.
package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Layout of a segment, as in docs/spec/index-format.md: header, page digests, sections.
const (
	segmentMagic = "MRSEGMNT"
	IndexVersion = 3
	CountsSize   = 64 // header bytes before the section list: magic, version, counts
	EntrySize    = 24 // bytes per entry of the section list
	HeaderSize   = CountsSize + NumSections*EntrySize + 8 + sha256.Size
	ChunkRow     = 56 // bytes per row of the chunk table
	ExtentRow    = 20
	LeastShard   = 13   // bytes of a shard row with a one-byte key
	BlockRow     = 32   // bytes per row of section 5: one offset for each of BlockSections
	PageSize     = 4096 // bytes per page of the hash section
	PageRecords  = 255
	PageCRC      = PageSize - 4
)

// Section indexes, in the order of the section numbers in the specification, which start at 1.
const (
	SecShards = iota
	SecChunks
	SecExtents
	SecTables
	SecBlocks
	SecNames
	SecParts
	SecHash
	SecDecoding
	SecDigests
	NumSections
)

// Limits of an index. Readers reject values beyond them.
const (
	MaxShards    = 1 << 24
	MaxChunks    = 1 << 25
	maxSamples   = 1 << 40
	maxParts     = 1 << 50 // total over all samples
	MaxChunkSize = 1 << 30
	MaxMeta      = 4 << 20  // maximum bytes; enough for 10,000 columns or leaves with names of 100 bytes
	MaxTable     = 64 << 20 // maximum bytes of one chunk's sample table, names, parts or parameters
	MaxSegments  = 1 << 20
	MaxObjectKey = 1024 // maximum bytes of a shard key

	MaxFrameSamples = 4 << 20 // maximum samples of a chunk that cannot be closed because it ends inside a frame
)

// Section is the location of a section in the file.
type Section struct {
	Offset, Length int64
}

// End returns the offset of the first byte after the section.
func (s Section) End() int64 { return s.Offset + s.Length }

// Header is the header of a segment.
type Header struct {
	Totals
	Digest   [sha256.Size]byte // SHA-256 of the page digests
	Sections [NumSections]Section
}

// HashPages returns the number of pages of the hash section for a number of samples.
func HashPages(samples uint64) uint64 { return (samples + PageRecords - 1) / PageRecords }

// BlockSections returns the sections of blocks, in the order of their offsets in a row of section
// 5.
func BlockSections() []int { return []int{SecTables, SecNames, SecParts, SecDecoding} }

// storedOrder returns the sections in file order, after the page digests. The sections that Open
// fetches are first.
func storedOrder() []int {
	return []int{SecShards, SecChunks, SecExtents, SecBlocks, SecTables, SecNames, SecParts, SecHash, SecDecoding}
}

// Place computes the location of each section from the header's counts. shards is the length of the
// section of shards.
func (h *Header) Place(shards int64) {
	n := int64(h.Chunks)
	lengths := [NumSections]int64{
		SecShards: shards, SecChunks: ChunkRow * n, SecExtents: ExtentRow * int64(h.Extents),
		SecTables: int64(h.tables), SecBlocks: BlockRow * (n + 1),
		SecNames: int64(h.names), SecParts: int64(h.parts),
		SecHash: PageSize * int64(HashPages(h.Hashed())), SecDecoding: int64(h.params),
	}
	var body int64
	for _, n := range lengths {
		body += n
	}
	h.Sections[SecDigests] = Section{Offset: HeaderSize, Length: digestsSize(body)}
	at := h.Sections[SecDigests].End()
	for _, i := range storedOrder() {
		h.Sections[i] = Section{Offset: at, Length: lengths[i]}
		at += lengths[i]
	}
}

// Hashed returns the number of samples in the hash section: all samples, or 0 if rules derive all
// names.
func (h *Header) Hashed() uint64 {
	if h.listed == 0 {
		return 0
	}
	return h.Samples
}

// Size returns the size of the whole segment.
func (h *Header) Size() int64 { return h.Sections[SecDecoding].End() }

// Resident returns the length of the beginning of the segment that a reader fetches when it opens
// the index: the header, the page digests, and the pages with the sections up to the block offsets.
func (h *Header) Resident() int64 {
	pages := h.Sections[SecDigests].End()
	return min(h.Size(), pages+ProofSize*PagesOf(h.Sections[SecBlocks].End()-pages))
}

// storedHeader is a header as it is stored.
type storedHeader struct {
	Magic                            [8]byte
	Version, Count                   uint32
	Shards, Chunks, Extents, Samples uint64
	Bytes, Longest                   uint64
	Sections                         [NumSections]storedSection
	PartCount                        uint64
	Digest                           [sha256.Size]byte
}

type storedSection struct{ Number, Offset, Length uint64 }

// Encode returns the header's bytes. Their SHA-256 is the digest of the segment.
func (h *Header) Encode() []byte {
	s := storedHeader{
		[8]byte([]byte(segmentMagic)), IndexVersion, NumSections, h.Shards, h.Chunks, h.Extents, h.Samples, uint64(h.Bytes), uint64(h.Longest),
		[NumSections]storedSection{}, h.PartCount, h.Digest,
	}
	for i, section := range h.Sections {
		s.Sections[i] = storedSection{uint64(i + 1), uint64(section.Offset), uint64(section.Length)}
	}
	b, _ := binary.Append(nil, binary.LittleEndian, s)
	return b
}

// DecodeHeader decodes a header and checks all that the header and the file size determine.
func DecodeHeader(b []byte, size int64) (*Header, error) {
	var s storedHeader
	if n, err := binary.Decode(b, binary.LittleEndian, &s); err != nil || n != len(b) || string(s.Magic[:]) != segmentMagic || s.Version != IndexVersion || s.Count != NumSections {
		return nil, fmt.Errorf("header: %w", ErrMalformed)
	}
	if s.Shards > MaxShards || s.Chunks > MaxChunks || s.Extents > maxSamples || s.Samples > maxSamples || s.Bytes > math.MaxInt64 || s.Longest > math.MaxInt64 || s.PartCount > maxParts {
		return nil, errors.New("header: a count exceeds the limits")
	}
	// No sample is empty, and none is longer than Longest.
	if s.Chunks > s.Samples || s.Extents < s.Chunks || s.Longest > s.Bytes || s.Longest > MaxChunkSize ||
		s.Samples > s.Bytes || (s.Samples == 0 && s.Bytes > 0) || (s.Samples > 0 && (s.Bytes-1)/s.Samples >= s.Longest) {
		return nil, fmt.Errorf("header: counts: %w", ErrMalformed)
	}
	h := &Header{Digest: s.Digest, Totals: Totals{
		Shards: s.Shards, Chunks: s.Chunks, Extents: s.Extents, Samples: s.Samples, Bytes: int64(s.Bytes), Longest: int64(s.Longest), PartCount: s.PartCount,
	}}
	for i, e := range s.Sections {
		if e.Number != uint64(i+1) || e.Offset > uint64(size) || e.Length > uint64(size)-e.Offset {
			return nil, fmt.Errorf("section %d: %w", i+1, ErrMalformed)
		}
		h.Sections[i] = Section{int64(e.Offset), int64(e.Length)}
	}
	return h, h.checkSections(size)
}

// checkSections checks that the sections are contiguous and have the lengths that the counts
// imply.
func (h *Header) checkSections(size int64) error {
	h.tables, h.names = uint64(h.Sections[SecTables].Length), uint64(h.Sections[SecNames].Length)
	h.parts, h.params = uint64(h.Sections[SecParts].Length), uint64(h.Sections[SecDecoding].Length)
	if h.Sections[SecHash].Length > 0 {
		h.listed = h.Samples
	}
	want := *h
	want.Place(h.Sections[SecShards].Length)
	for i := range h.Sections {
		if want.Sections[i] != h.Sections[i] {
			return fmt.Errorf("section %d: %w", i+1, ErrMalformed)
		}
	}
	// A sample needs at least four bytes of its chunk's table, and a chunk at least five.
	if h.Size() != size || h.tables/4 < h.Samples || h.listed == 0 && h.names > 0 {
		return fmt.Errorf("sections: %w", ErrMalformed)
	}
	return nil
}
