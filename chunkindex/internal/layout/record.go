package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// ChunkRecord is everything an index says of one chunk, on its way from a scan into an index. Shards are numbered from
// the first one of the scan.
type ChunkRecord struct {
	Extents []Extent
	Codec   codec.Codec
	Skip    int64 // decoded bytes before the chunk in what its extent decodes to
	Length  int64
	CRC     uint32
	Digest  [32]byte
	Samples uint32
	Bytes   int64  // of all samples
	Longest int64  // sample
	Count   uint64 // parts of all samples
	Frame   int64  // bytes of the scan that it was read of, with their length
	Stem    int    // bytes of the shard's key that names by rule begin with; 0 where names are listed

	// The blocks of sections 5, 7, 8 and 10, as an index of the present version holds them.
	Table, Names, Parts, Params []byte
}

// Reset empties the record and keeps its memory.
func (r *ChunkRecord) Reset() {
	*r = ChunkRecord{Extents: r.Extents[:0], Table: r.Table[:0], Names: r.Names[:0], Parts: r.Parts[:0], Params: r.Params[:0]}
}

// sum takes the sums of what the samples have.
func (r *ChunkRecord) sum(t *Table, p *Parts) {
	r.Bytes, r.Longest, r.Count = 0, 0, uint64(len(p.parts))
	for _, n := range t.Length {
		r.Bytes += int64(n)
		r.Longest = max(r.Longest, int64(n))
	}
}

// Check holds a record that somebody kept to what a scan of these shards can say, and sums it up. o has seen the chunks before it.
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

// CheckCodec holds a chunk to what its codec allows: one extent, unless columns are left out of its frames, and a first byte that lies in
// its first frame.
func CheckCodec(c codec.Codec, skip, extents uint64) error {
	switch {
	case !c.Known():
		return Newer("codec", uint32(c))
	case !c.Packed() && skip != 0, c != codec.None && !c.InPieces() && extents != 1, skip >= codec.MaxFrame:
		return ErrMalformed
	}
	return nil
}

// ExtentOrder follows the extents of all chunks in order, and holds them to their shards and to each other.
//
// They ascend by shard and offset and lie inside their shards. Those of chunks that are stored as they are share at most
// the overlap with the one before, and add up to their chunk; those of compressed ones share at most a frame with the one before, and so none with
// the one before that. Extents of one chunk share nothing.
type ExtentOrder struct {
	Shards  []Shard
	Overlap int64

	some   bool // an extent came
	shard  int
	off    int64 // of the extent before, in this shard
	end    int64 // where it ends
	before int64 // where the one before it ends
	left   int64 // of the chunk, for further extents
	part   bool  // the chunk has had an extent
}

var errExtent = errors.New("extent outside its shard, or overlapping")

// Next checks the next extent of a chunk of this length and codec.
func (o *ExtentOrder) Next(e Extent, chunk int64, c codec.Codec) error {
	packed := c.Packed()
	if c&codec.LineFeed != 0 { // which is not stored
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
		return fmt.Errorf("extents do not add up: %w", ErrMalformed)
	}
	o.some, o.off, o.before, o.end = true, e.Offset, o.end, end
	return nil
}

// EndChunk says that the chunk has no further extent.
func (o *ExtentOrder) EndChunk() error {
	if !o.part || o.left != 0 {
		return fmt.Errorf("extents do not add up: %w", ErrMalformed)
	}
	o.part = false
	return nil
}

// AppendPart appends a part as a plain block of parts has it.
func AppendPart(b []byte, p Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Ext)))
	b = append(b, p.Ext...)
	b = binary.AppendUvarint(b, uint64(p.Offset))
	b = binary.AppendUvarint(b, uint64(p.Length))
	return binary.LittleEndian.AppendUint32(b, p.CRC32C)
}

// ErrMalformed says that bytes are not of the form that this package has.
var ErrMalformed = errors.New("malformed")

// newTable has room for n samples.
func newTable(n int) *Table {
	all := make([]uint32, 3*n)
	return &Table{Offset: all[:n:n], Length: all[n : 2*n : 2*n], CRC32C: all[2*n:]}
}

// tableCheck follows the samples of a chunk, which ascend, share at most the overlap with the one before and lie inside the chunk.
type tableCheck struct {
	chunk, longest, overlap int64

	begin, end int64 // of the sample before; -1 and 0 where there is none
}

func (c *tableCheck) next(off, length int64) bool {
	if off < c.end-c.overlap || off <= c.begin || length <= 0 || length > c.longest || off+length <= c.end || off+length > c.chunk {
		return false
	}
	c.begin, c.end = off, off+length
	return true
}

// decodePlainTable reads a sample table of 12 bytes a sample, and checks it.
func decodePlainTable(b []byte, chunk, longest, overlap int64) (*Table, error) {
	t := newTable(len(b) / 12)
	c := tableCheck{chunk: chunk, longest: longest, overlap: overlap, begin: -1}
	for i := range t.Offset {
		off, length := int64(binary.LittleEndian.Uint32(b[12*i:])), int64(binary.LittleEndian.Uint32(b[12*i+4:]))
		if !c.next(off, length) {
			return nil, fmt.Errorf("sample table: sample %d: %w", i, ErrMalformed)
		}
		t.Offset[i], t.Length[i], t.CRC32C[i] = uint32(off), uint32(length), binary.LittleEndian.Uint32(b[12*i+8:])
	}
	return t, nil
}
