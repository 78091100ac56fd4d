package chunkindex

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// assemble makes an index of segments that are open. It reads their resident sections.
func assemble(root *layout.Root, generation string, segments []Segment) (*Index, error) {
	x := &Index{generation: generation, size: root.Bytes(), segments: segments}
	if err := x.readMeta(root.Meta); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	for i := range segments {
		x.totals.Join(segments[i].head.Totals)
	}
	if x.totals.Shards > layout.MaxShards || x.totals.Chunks > layout.MaxChunks || x.totals.Bytes < 0 {
		return nil, errors.New("the sums of the segments exceed the limits of an index")
	}
	chunks, extents := x.totals.Chunks, x.totals.Extents
	x.first, x.hashes = make([]uint64, 1, chunks+1), make([][32]byte, 0, chunks)
	x.crcs, x.lengths = make([]uint32, 0, chunks), make([]uint32, 0, chunks)
	x.extents.shard, x.extents.offset = make([]uint32, 0, extents), make([]int64, 0, extents)
	for i := range x.segments {
		s := &x.segments[i]
		s.First, s.chunk = len(x.shards), len(x.lengths)
		x.inPart = x.inPart || !s.pages.complete
		if err := x.readResident(s); err != nil {
			return nil, fmt.Errorf("segment %s: %w", s.Ref.Name(), err)
		}
	}
	return x, nil
}

// readResident appends the sections of a segment that stay in memory.
func (x *Index) readResident(s *Segment) error {
	for _, p := range []struct {
		sec  int
		read func(*Segment, *sectionReader) error
	}{{layout.SecShards, x.readShards}, {layout.SecChunks, x.readChunks}, {layout.SecExtents, x.readExtents}} {
		in := newSectionReader(s.pages, s.head.Sections[p.sec])
		if err := p.read(s, in); err != nil {
			return fmt.Errorf("section %d: %w", p.sec+1, err)
		}
		if in.left != 0 {
			return fmt.Errorf("section %d: %d bytes after the end: %w", p.sec+1, in.left, layout.ErrMalformed)
		}
	}
	return nil
}

// sectionReader reads a section sequentially. Reads beyond its end return ErrMalformed.
type sectionReader struct {
	in   *bufio.Reader
	left int64
	buf  []byte
}

func newSectionReader(f io.ReaderAt, s layout.Section) *sectionReader {
	size := int(min(64<<10, s.Length))
	return &sectionReader{in: bufio.NewReaderSize(io.NewSectionReader(f, s.Offset, s.Length), size), left: s.Length}
}

func (r *sectionReader) next(n int64) ([]byte, error) {
	if n > r.left {
		return nil, layout.ErrMalformed
	}
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, err
	}
	r.left -= n
	return b, nil
}

func (x *Index) readMeta(b []byte) (err error) {
	if err := json.Unmarshal(b, &x.meta); err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(new(layout.Meta)); err != nil {
		return layout.Newer("meta", err)
	}
	if x.framing, err = framing.Read(x.meta.Format, x.meta.Framing); errors.Is(err, framing.ErrUnknown) {
		return layout.Newer("format", x.meta.Format)
	} else if err != nil {
		return fmt.Errorf("framing: %w", err)
	}
	if x.meta.Overlap < 0 || x.meta.Overlap > layout.MaxChunkSize || x.meta.Scanner < 1 || x.meta.Cutter < 0 || x.meta.ChunkSize <= 0 || x.meta.ChunkSize > layout.MaxChunkSize {
		return layout.ErrMalformed
	}
	if d := x.meta.Defaults; d.Shuffle == "" || d.Window == 0 || d.BatchSize == 0 || d.Tail == "" {
		return fmt.Errorf("a default is missing: %w", layout.ErrMalformed)
	}
	return nil
}

func (x *Index) readShards(s *Segment, in *sectionReader) error {
	// Compare the count with the section's length before allocating memory for it.
	if int64(s.head.Shards) > in.left/layout.LeastShard {
		return layout.ErrMalformed
	}
	x.shards = slices.Grow(x.shards, s.Shards)
	for i := range s.Shards {
		b, err := in.next(12)
		if err != nil {
			return err
		}
		size, n, stem := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
		if size > math.MaxInt64 || n == 0 || n > layout.MaxObjectKey || stem > n {
			return fmt.Errorf("shard %d: %w", i, layout.ErrMalformed)
		}
		if b, err = in.next(int64(n)); err != nil {
			return err
		}
		shard := Shard{Key: string(b), Size: int64(size), Stem: int(stem)}
		if err := layout.CheckShardKey(shard.Key); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if n := len(x.shards); n > 0 && shard.Key <= x.shards[n-1].Key {
			return fmt.Errorf("shard %d: keys do not ascend: %w", i, layout.ErrMalformed)
		}
		x.shards = append(x.shards, shard)
	}
	return nil
}

// chunkRow is a decoded row of the chunk table.
type chunkRow struct {
	digest          [32]byte
	crc             uint32
	samples, length uint32
	extents         uint32
	codec           codec.Codec
	skip            uint32
}

// decodeChunk decodes a row of the chunk table.
func decodeChunk(b []byte) (c chunkRow) {
	copy(c.digest[:], b)
	c.codec = codec.Codec(binary.LittleEndian.Uint32(b[48:]))
	for i, to := range []*uint32{&c.crc, &c.samples, &c.length, &c.extents} {
		*to = binary.LittleEndian.Uint32(b[32+4*i:])
	}
	c.skip = binary.LittleEndian.Uint32(b[52:])
	return c
}

// check returns ErrMalformed for values that no valid chunk has.
func (c *chunkRow) check() error {
	if err := layout.CheckCodec(c.codec, uint64(c.skip), uint64(c.extents)); err != nil {
		return err
	}
	if c.samples == 0 || c.samples > layout.MaxFrameSamples || c.length == 0 || c.length > layout.MaxChunkSize || c.extents == 0 || c.samples > c.length {
		return layout.ErrMalformed
	}
	return nil
}

func (x *Index) readChunks(s *Segment, in *sectionReader) error {
	samples, extents := x.first[s.chunk], uint64(len(x.extents.shard))
	var bytes uint64
	var longest int64
	for i := range s.head.Chunks {
		b, err := in.next(layout.ChunkRow)
		if err != nil {
			return err
		}
		c := decodeChunk(b)
		if err := c.check(); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		x.addChunk(&c)
		bytes += uint64(c.length)
		longest = max(longest, int64(c.length))
		extents += uint64(c.extents)
		if x.extents.first != nil {
			x.extents.first = append(x.extents.first, extents)
		}
	}
	x.maxChunk = max(x.maxChunk, longest)
	extents -= uint64(len(x.extents.shard))
	if x.first[len(x.lengths)]-samples != s.head.Samples || extents != s.head.Extents || s.head.Longest > longest || !x.mayHold(&s.head, bytes) {
		return fmt.Errorf("sums: %w", layout.ErrMalformed)
	}
	return nil
}

// addChunk appends a chunk. The first chunk that is compressed, or that has not exactly one extent,
// makes the arrays that describe such chunks.
func (x *Index) addChunk(c *chunkRow) {
	n := len(x.lengths)
	x.hashes, x.crcs, x.lengths = append(x.hashes, c.digest), append(x.crcs, c.crc), append(x.lengths, c.length)
	x.first = append(x.first, x.first[n]+uint64(c.samples))
	if c.codec != codec.None && x.packed == nil {
		x.packed = make([]compression, n, cap(x.lengths))
	}
	if x.packed != nil {
		x.packed = append(x.packed, compression{c.codec, c.skip})
	}
	if c.extents != 1 && x.extents.first == nil {
		x.extents.first = make([]uint64, n+1, cap(x.lengths)+1)
		for j := range x.extents.first {
			x.extents.first[j] = uint64(j)
		}
	}
}

// mayHold reports whether chunks with this many bytes can hold the samples. Chunks may also contain
// gaps. The total length of the samples can exceed that of the chunks only where consecutive
// samples overlap.
func (x *Index) mayHold(h *layout.Header, chunks uint64) bool {
	all := uint64(h.Bytes)
	return all <= chunks || x.meta.Overlap > 0 && (all-chunks-1)/uint64(x.meta.Overlap) < h.Samples
}

// decodeExtent decodes an extent and checks its shard number against the number of shards.
func decodeExtent(b []byte, shards int) (Extent, error) {
	shard, off, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:])
	if uint64(shard) >= uint64(shards) || off > math.MaxInt64 || n > math.MaxInt64 {
		return Extent{}, layout.ErrMalformed
	}
	return Extent{Shard: int(shard), Offset: int64(off), Length: int64(n)}, nil
}

func (x *Index) readExtents(s *Segment, in *sectionReader) error {
	e := &x.extents
	if e.length == nil && (e.first != nil || x.packed != nil) {
		e.length = make([]int64, len(e.shard), cap(e.shard))
		for i := range e.length { // every earlier chunk has one extent
			e.length[i] = int64(x.lengths[i])
		}
	}
	order := layout.ExtentOrder{Shards: x.shards[s.First:], Overlap: x.meta.Overlap}
	for i := s.chunk; i < len(x.lengths); i++ {
		from, to := e.of(i)
		for range to - from {
			b, err := in.next(layout.ExtentRow)
			if err != nil {
				return err
			}
			ext, err := decodeExtent(b, s.Shards)
			if err == nil {
				err = order.Next(ext, int64(x.lengths[i]), x.Codec(i))
			}
			if err != nil {
				return fmt.Errorf("chunk %d: %w", i-s.chunk, err)
			}
			e.shard, e.offset = append(e.shard, uint32(s.First+ext.Shard)), append(e.offset, ext.Offset)
			if e.length != nil {
				e.length = append(e.length, ext.Length)
			}
		}
		if err := order.EndChunk(); err != nil {
			return fmt.Errorf("chunk %d: %w", i-s.chunk, err)
		}
	}
	return nil
}
