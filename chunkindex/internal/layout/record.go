package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// ChunkRecord holds all index data of one chunk while the data is moved from a scan to an index.
// Shard numbers are relative to the first shard of the scan.
type ChunkRecord struct {
	Extents []Extent
	Codec   codec.Codec
	Skip    int64 // decoded bytes in the extent before the chunk
	Length  int64
	CRC     uint32
	Digest  [32]byte
	Samples uint32
	Bytes   int64  // total length of all samples
	Longest int64  // length of the longest sample
	Count   uint64 // number of parts of all samples
	Frame   int64  // bytes of the record's frame in the scan file, including the length prefix
	Stem    int    // length of the shard key's prefix from which names are derived; 0: names are stored

	// The blocks of sections 5, 7, 8 and 10 in the current index version.
	Table, Names, Parts, Params []byte
}

// Reset empties the record but retains its memory.
func (r *ChunkRecord) Reset() {
	*r = ChunkRecord{Extents: r.Extents[:0], Table: r.Table[:0], Names: r.Names[:0], Parts: r.Parts[:0], Params: r.Params[:0]}
}

// Blocks returns the blocks in the order of BlockSections.
func (r *ChunkRecord) Blocks() [4]*[]byte { return [4]*[]byte{&r.Table, &r.Names, &r.Parts, &r.Params} }

// sum computes the record's totals from its samples and parts.
func (r *ChunkRecord) sum(t *Table, p *Parts) {
	r.Bytes, r.Longest, r.Count = 0, 0, uint64(len(p.parts))
	for i := range t.Len() {
		n := int64(t.Length(i))
		r.Bytes += n
		r.Longest = max(r.Longest, n)
	}
}

// Check validates a record from a stored scan against the limits and its shards, and computes its
// totals. o has already validated the preceding chunks.
func (r *ChunkRecord) Check(o *ExtentOrder) error {
	if r.Samples == 0 || r.Length <= 0 || r.Length > MaxChunkSize {
		return ErrMalformed
	}
	if err := CheckCodec(r.Codec, uint64(r.Skip), uint64(len(r.Extents))); err != nil {
		return err
	}
	if len(r.Params) > 0 && !r.Codec.Described() {
		return ErrMalformed
	}
	for _, e := range r.Extents {
		if err := o.Next(e, r.Length, r.Codec); err != nil {
			return err
		}
	}
	if err := o.EndChunk(); err != nil {
		return err
	}
	t, err := DecodeTable(r.Table, r.Samples, r.Length, MaxChunkSize, o.Overlap)
	if err != nil {
		return err
	}
	if len(r.Names) > 0 {
		err = eachName(r.Names, r.Samples, func(uint32, []byte) error { return nil })
	} else if r.Stem <= 0 || r.Stem > len(o.Shards[r.Extents[0].Shard].Key) {
		err = ErrMalformed
	}
	if err != nil {
		return err
	}
	p, err := DecodeParts(r.Parts, t)
	if err != nil {
		return err
	}
	r.sum(t, p)
	return nil
}

// CheckCodec validates a chunk's codec, skipped bytes and number of extents. A compressed chunk
// begins in its first frame. It has one extent, unless columns of its frames are omitted.
func CheckCodec(c codec.Codec, skip, extents uint64) error {
	switch {
	case !c.Known():
		return Newer("codec", uint32(c))
	case !c.Packed() && skip != 0, c != codec.None && !c.InPieces() && extents != 1, skip >= codec.MaxFrame:
		return ErrMalformed
	}
	return nil
}

// ExtentOrder validates the extents of all chunks in order, against their shards and each other.
//
// Extents ascend by shard and offset and are within their shards. An uncompressed chunk overlaps
// the preceding chunk by at most Overlap bytes, and its extents add up to its length. A compressed
// chunk shares at most one frame with the preceding chunk, and none with the chunk before that.
// Extents of one chunk do not overlap.
type ExtentOrder struct {
	Shards  []Shard
	Overlap int64

	some   bool // Next has seen an extent of this shard
	shard  int
	off    int64 // offset of the preceding extent in this shard
	end    int64 // end of the preceding extent
	before int64 // end of the extent before the preceding one
	left   int64 // bytes of the chunk that the remaining extents must cover
	part   bool  // the chunk already has an extent
}

var errExtent = errors.New("extent is outside its shard, or overlaps another")

// Next validates the next extent of a chunk of the given length and codec.
func (o *ExtentOrder) Next(e Extent, chunk int64, c codec.Codec) error {
	packed := c.Packed()
	if c&codec.LineFeed != 0 { // the line feed is not stored
		chunk--
	}
	if e.Shard < o.shard || e.Shard >= len(o.Shards) {
		return ErrMalformed
	}
	size := o.Shards[e.Shard].Size
	if e.Shard > o.shard {
		o.shard, o.some, o.off, o.end, o.before = e.Shard, false, 0, 0, 0
	}
	if e.Length <= 0 || e.Offset < 0 || e.Offset > size || e.Length > size-e.Offset {
		return fmt.Errorf("%w: %w", errExtent, ErrMalformed)
	}
	end := e.Offset + e.Length
	least := o.end
	switch {
	case packed && !o.part:
		least = o.before
	case !o.part:
		least = max(0, o.end-o.Overlap)
	}
	if e.Offset < least || o.some && (e.Offset <= o.off || end < o.end || !packed && end == o.end) {
		return fmt.Errorf("%w: %w", errExtent, ErrMalformed)
	}
	if !o.part {
		o.part, o.left = true, chunk
	}
	if packed {
		o.left = 0
	} else if o.left -= e.Length; o.left < 0 {
		return fmt.Errorf("the lengths of its extents do not sum to its length: %w", ErrMalformed)
	}
	o.some, o.off, o.before, o.end = true, e.Offset, o.end, end
	return nil
}

// EndChunk validates that the chunk's extents are complete.
func (o *ExtentOrder) EndChunk() error {
	if !o.part || o.left != 0 {
		return fmt.Errorf("the lengths of its extents do not sum to its length: %w", ErrMalformed)
	}
	o.part = false
	return nil
}

// AppendPart appends a part in the encoding of a plain parts block.
func AppendPart(b []byte, p Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Ext)))
	b = append(b, p.Ext...)
	b = binary.AppendUvarint(b, uint64(p.Offset))
	b = binary.AppendUvarint(b, uint64(p.Length))
	return binary.LittleEndian.AppendUint32(b, p.CRC32C)
}

// ErrMalformed reports bytes that do not follow the format of this package.
var ErrMalformed = errors.New("malformed")

// tableCheck validates the samples of a chunk in order. Offsets must ascend, consecutive samples
// may overlap by at most overlap bytes, and all samples must be within the chunk.
type tableCheck struct {
	chunk, longest, overlap int64

	begin, end int64 // range of the preceding sample; at first -1 and 0
}

func (c *tableCheck) next(off, length int64) bool {
	if off < c.end-c.overlap || off <= c.begin || length <= 0 || length > c.longest || off+length <= c.end || off+length > c.chunk {
		return false
	}
	c.begin, c.end = off, off+length
	return true
}

// decodePlainTable decodes and validates a sample table of 12 bytes per sample.
func decodePlainTable(b []byte, chunk, longest, overlap int64) (*Table, error) {
	t := newTable(len(b) / 12)
	c := tableCheck{chunk: chunk, longest: longest, overlap: overlap, begin: -1}
	for i := range t.offsets {
		off, length := int64(binary.LittleEndian.Uint32(b[12*i:])), int64(binary.LittleEndian.Uint32(b[12*i+4:]))
		if !c.next(off, length) {
			return nil, fmt.Errorf("sample table: sample %d: %w", i, ErrMalformed)
		}
		t.offsets[i], t.lengths[i], t.crcs[i] = uint32(off), uint32(length), binary.LittleEndian.Uint32(b[12*i+8:])
	}
	return t, nil
}
