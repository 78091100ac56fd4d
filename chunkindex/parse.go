package chunkindex

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// parseIndex verifies and opens an index file. from fetches missing pages. If whole is set,
// parseIndex compares all pages with their digests immediately, otherwise on first read. On
// success, the index owns the file.
func parseIndex(f *os.File, size int64, generation string, from fetch, whole bool) (*Index, error) {
	x := &Index{file: f, size: size, generation: generation}
	begin := make([]byte, min(size, layout.HeaderSize))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return nil, err
	}
	if len(begin) < 16 || string(begin[:8]) != layout.IndexMagic {
		return nil, errors.New("not an index")
	}
	if version := binary.LittleEndian.Uint32(begin[8:]); version < layout.IndexVersion {
		return nil, fmt.Errorf("version %d: %w", version, ErrOldVersion)
	}
	if err := x.readHead(begin, from, whole); err != nil {
		return nil, err
	}
	return x, x.readResident()
}

// readHead reads the header of an index and the digests of its pages.
func (x *Index) readHead(b []byte, from fetch, whole bool) error {
	if err := checkNewer(x.file, x.size, x.generation); err != nil {
		return err
	}
	h, err := layout.DecodeHeader(b, x.size)
	if err != nil {
		return err
	}
	x.head = *h
	digests := make([]byte, h.Sections[layout.SecDigests].Length)
	if _, err := x.file.ReadAt(digests, layout.HeaderSize); err != nil {
		return err
	}
	if sha256.Sum256(digests) != h.Digest {
		return errors.New("the page digests do not match the header")
	}
	x.pages = &pages{file: x.file, from: from, begin: h.Sections[layout.SecDigests].End(), end: x.size, digests: digests}
	x.pages.proved = make([]bool, len(digests)/sha256.Size)
	if !whole {
		return nil
	}
	x.pages.complete = true
	found, err := layout.SumPages(x.file, x.pages.begin, x.size)
	if err == nil && !bytes.Equal(found, digests) {
		err = errPage
	}
	return err
}

// checkNewer compares the digest of the file's header with the generation. The number of sections
// determines the header's length in this and all later versions. A valid header of a newer version
// returns ErrVersion.
func checkNewer(f io.ReaderAt, size int64, generation string) error {
	b := make([]byte, 16)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	version, sections := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	length := layout.HeaderSize + (int64(sections)-layout.NumSections)*layout.EntrySize
	if sections > layout.MaxSections || length > size {
		return fmt.Errorf("header: %w", layout.ErrMalformed)
	}
	b = make([]byte, length)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != generation {
		return errors.New("the header does not match the generation")
	}
	if version > layout.IndexVersion {
		return layout.Newer("version", version)
	}
	return nil
}

// readResident reads the sections that stay in memory.
func (x *Index) readResident() error {
	for _, p := range []struct {
		sec  int
		read func(*sectionReader) error
	}{{layout.SecMeta, x.readMeta}, {layout.SecShards, x.readShards}, {layout.SecChunks, x.readChunks}, {layout.SecExtents, x.readExtents}} {
		in := newSectionReader(x.pages, x.head.Sections[p.sec])
		if err := p.read(in); err != nil {
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

func (x *Index) readMeta(in *sectionReader) error {
	b, err := in.next(in.left)
	if err != nil {
		return err
	}
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

func (x *Index) readShards(in *sectionReader) error {
	// Compare the count with the section's length before allocating memory for it.
	if int64(x.head.Shards) > in.left/layout.LeastShard {
		return layout.ErrMalformed
	}
	x.shards = make([]Shard, x.head.Shards)
	for i := range x.shards {
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
		x.shards[i] = Shard{Key: string(b), Size: int64(size), Stem: int(stem)}
		if err := layout.CheckShardKey(x.shards[i].Key); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if i > 0 && x.shards[i].Key <= x.shards[i-1].Key {
			return fmt.Errorf("shard %d: keys do not ascend: %w", i, layout.ErrMalformed)
		}
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

func (x *Index) readChunks(in *sectionReader) error {
	n := x.head.Chunks
	x.first, x.hashes = make([]uint64, 1, n+1), make([][32]byte, n)
	x.crcs, x.lengths = make([]uint32, n), make([]uint32, n)
	var extents, bytes uint64
	for i := range n {
		b, err := in.next(layout.ChunkRow)
		if err != nil {
			return err
		}
		c := decodeChunk(b)
		if err := c.check(); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		x.hashes[i], x.crcs[i], x.lengths[i] = c.digest, c.crc, c.length
		x.first = append(x.first, x.first[i]+uint64(c.samples))
		x.maxChunk = max(x.maxChunk, int64(c.length))
		extents += uint64(c.extents)
		bytes += uint64(c.length)
		if c.codec != codec.None && x.packed == nil {
			x.packed = make([]compression, n)
		}
		if x.packed != nil {
			x.packed[i] = compression{c.codec, c.skip}
		}
		if c.extents != 1 && x.extents.first == nil {
			x.extents.first = make([]uint64, n+1)
			for j := range i + 1 {
				x.extents.first[j] = j
			}
		}
		if x.extents.first != nil {
			x.extents.first[i+1] = extents
		}
	}
	if x.first[n] != x.head.Samples || extents != x.head.Extents || x.head.Longest > x.maxChunk || !x.mayHold(bytes) {
		return fmt.Errorf("sums: %w", layout.ErrMalformed)
	}
	return nil
}

// mayHold reports whether chunks with this many bytes can hold the samples. Chunks may also contain
// gaps. The total length of the samples can exceed that of the chunks only where consecutive
// samples overlap.
func (x *Index) mayHold(chunks uint64) bool {
	all := uint64(x.head.Bytes)
	return all <= chunks || x.meta.Overlap > 0 && (all-chunks-1)/uint64(x.meta.Overlap) < x.head.Samples
}

// decodeExtent decodes an extent and checks its shard number against the number of shards.
func decodeExtent(b []byte, shards int) (Extent, error) {
	shard, off, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:])
	if uint64(shard) >= uint64(shards) || off > math.MaxInt64 || n > math.MaxInt64 {
		return Extent{}, layout.ErrMalformed
	}
	return Extent{Shard: int(shard), Offset: int64(off), Length: int64(n)}, nil
}

func (x *Index) readExtents(in *sectionReader) error {
	e := &x.extents
	e.shard, e.offset = make([]uint32, x.head.Extents), make([]int64, x.head.Extents)
	if e.first != nil || x.packed != nil {
		e.length = make([]int64, x.head.Extents)
	}
	order := layout.ExtentOrder{Shards: x.shards, Overlap: x.meta.Overlap}
	j := 0
	for i, length := range x.lengths {
		count := uint64(1)
		if e.first != nil {
			count = e.first[i+1] - e.first[i]
		}
		how := codec.None
		if x.packed != nil {
			how = x.packed[i].codec
		}
		for range count {
			b, err := in.next(layout.ExtentRow)
			if err != nil {
				return err
			}
			ext, err := decodeExtent(b, len(x.shards))
			if err == nil {
				err = order.Next(ext, int64(length), how)
			}
			if err != nil {
				return fmt.Errorf("chunk %d: %w", i, err)
			}
			e.shard[j], e.offset[j] = uint32(ext.Shard), ext.Offset
			if e.length != nil {
				e.length[j] = ext.Length
			}
			j++
		}
		if err := order.EndChunk(); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return nil
}
