package chunkindex

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// chunkRecord is everything an index says of one chunk, on its way from a scan into an index. Shards are numbered from
// the first one of the scan.
type chunkRecord struct {
	extents []Extent
	codec   codec.Codec
	skip    int64 // decoded bytes before the chunk in what its extent decodes to
	length  int64
	crc     uint32
	digest  [32]byte
	samples uint32
	bytes   int64  // of all samples
	longest int64  // sample
	count   uint64 // parts of all samples
	frame   int64  // bytes of the scan that it was read of, with their length
	stem    int    // bytes of the shard's key that names by rule begin with; 0 where names are listed

	// The blocks of sections 5, 7, 8 and 10, as an index of the present version holds them.
	table, names, parts, params []byte
}

func (r *chunkRecord) reset() {
	*r = chunkRecord{extents: r.extents[:0], table: r.table[:0], names: r.names[:0], parts: r.parts[:0], params: r.params[:0]}
}

// sum takes the sums of what the samples have.
func (r *chunkRecord) sum(t *Table, p *Parts) {
	r.bytes, r.longest, r.count = 0, 0, uint64(len(p.parts))
	for _, n := range t.Length {
		r.bytes += int64(n)
		r.longest = max(r.longest, int64(n))
	}
}

// check holds a record that somebody kept to what a scan of these shards can say, and sums it up. o has seen the chunks before it.
func (r *chunkRecord) check(o *extentOrder) error {
	if r.samples == 0 || r.length <= 0 || r.length > maxChunkSize {
		return errMalformed
	}
	if err := checkCodec(r.codec, uint64(r.skip), uint64(len(r.extents))); err != nil {
		return err
	}
	if len(r.params) > 0 && !r.codec.Described() {
		return errMalformed
	}
	for _, e := range r.extents {
		if err := o.next(e, r.length, r.codec); err != nil {
			return err
		}
	}
	if err := o.endChunk(); err != nil {
		return err
	}
	t, err := decodeTable(r.table, r.samples, r.length, maxChunkSize, o.overlap)
	if err != nil {
		return err
	}
	if len(r.names) > 0 {
		err = eachName(r.names, r.samples, func(uint32, []byte) error { return nil })
	} else if key, _, _ := o.shards(r.extents[0].Shard); r.stem <= 0 || r.stem > len(key) {
		err = errMalformed
	}
	if err != nil {
		return err
	}
	p, err := decodeParts(r.parts, t)
	if err != nil {
		return err
	}
	r.sum(t, p)
	return nil
}

// checkCodec holds a chunk to what its codec allows: one extent, unless columns are left out of its frames, and a first byte that lies in
// its first frame.
func checkCodec(c codec.Codec, skip, extents uint64) error {
	switch {
	case !c.Known():
		return newer("codec", uint32(c))
	case !c.Packed() && skip != 0, c != codec.None && !c.InPieces() && extents != 1, skip >= codec.MaxFrame:
		return errMalformed
	}
	return nil
}

// extentOrder follows the extents of all chunks in order, and holds them to their shards and to each other.
//
// They ascend by shard and offset and lie inside their shards. Those of chunks that are stored as they are share at most
// the overlap with the one before, and add up to their chunk; those of compressed ones share at most a frame with the one before, and so none with
// the one before that. Extents of one chunk share nothing.
type extentOrder struct {
	shards  func(shard int) (key string, size int64, ok bool)
	overlap int64

	some   bool // an extent came
	shard  int
	off    int64 // of the extent before, in this shard
	end    int64 // where it ends
	before int64 // where the one before it ends
	left   int64 // of the chunk, for further extents
	part   bool  // the chunk has had an extent
}

var errExtent = errors.New("extent outside its shard, or overlapping")

func (o *extentOrder) next(e Extent, chunk int64, c codec.Codec) error {
	packed := c.Packed()
	if c&codec.LineFeed != 0 { // which is not stored
		chunk--
	}
	_, size, ok := o.shards(e.Shard)
	if !ok || e.Shard < o.shard {
		return errMalformed
	}
	if e.Shard > o.shard {
		o.shard, o.some, o.off, o.end, o.before = e.Shard, false, 0, 0, 0
	}
	if e.Length <= 0 || e.Offset < 0 || e.Offset > size || e.Length > size-e.Offset {
		return fmt.Errorf("%w: %w", errExtent, errMalformed)
	}
	end := e.Offset + e.Length
	least := o.end
	switch {
	case packed && !o.part:
		least = o.before
	case !o.part:
		least = max(0, o.end-o.overlap)
	}
	if e.Offset < least || o.some && (e.Offset <= o.off || end < o.end || !packed && end == o.end) {
		return fmt.Errorf("%w: %w", errExtent, errMalformed)
	}
	if !o.part {
		o.part, o.left = true, chunk
	}
	if packed {
		o.left = 0
	} else if o.left -= e.Length; o.left < 0 {
		return fmt.Errorf("extents do not add up: %w", errMalformed)
	}
	o.some, o.off, o.before, o.end = true, e.Offset, o.end, end
	return nil
}

// endChunk says that the chunk has no further extent.
func (o *extentOrder) endChunk() error {
	if !o.part || o.left != 0 {
		return fmt.Errorf("extents do not add up: %w", errMalformed)
	}
	o.part = false
	return nil
}

func appendPart(b []byte, p Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Ext)))
	b = append(b, p.Ext...)
	b = binary.AppendUvarint(b, uint64(p.Offset))
	b = binary.AppendUvarint(b, uint64(p.Length))
	return binary.LittleEndian.AppendUint32(b, p.CRC32C)
}

var errMalformed = errors.New("malformed")

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
			return nil, fmt.Errorf("sample table: sample %d: %w", i, errMalformed)
		}
		t.Offset[i], t.Length[i], t.CRC32C[i] = uint32(off), uint32(length), binary.LittleEndian.Uint32(b[12*i+8:])
	}
	return t, nil
}
