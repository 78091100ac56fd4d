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
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
)

// checkFile compares an index file with its own length and digest, which come before
// all parsing, and returns its generation.
func checkFile(f io.ReaderAt, size int64) (string, error) {
	if size < minHeader+footerSize {
		return "", errors.New("not an index: too short")
	}
	foot := make([]byte, footerSize)
	if _, err := f.ReadAt(foot, size-footerSize); err != nil {
		return "", err
	}
	if string(foot[40:]) != footerMagic || binary.LittleEndian.Uint64(foot[32:]) != uint64(size) {
		return "", errors.New("truncated, or not an index")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size-footerSize)); err != nil {
		return "", err
	}
	if !bytes.Equal(sum.Sum(nil), foot[:32]) {
		return "", errors.New("digest is wrong")
	}
	return hex.EncodeToString(foot[:32]), nil
}

// parseIndex checks an index file from end to end and opens it. The index owns the file only if there is no error.
func parseIndex(f *os.File, size int64, generation string) (*Index, error) {
	found, err := checkFile(f, size)
	if err != nil {
		return nil, err
	}
	if found != generation {
		return nil, fmt.Errorf("it holds generation %.12s", found)
	}
	x := &Index{file: f, size: size, digest: generation}
	head := make([]byte, min(size, (&header{version: indexVersion}).length()))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	h, err := decodeHeader(head, size)
	if err != nil {
		return nil, err
	}
	x.head = *h
	for _, p := range []struct {
		sec  int
		read func(*sectionReader) error
	}{{secMeta, x.readMeta}, {secShards, x.readShards}, {secChunks, x.readChunks}, {secExtents, x.readExtents}} {
		s := h.sections[p.sec]
		in := newSectionReader(f, s)
		if err := p.read(in); err != nil {
			return nil, fmt.Errorf("section %d: %w", p.sec+1, err)
		}
		if in.left != 0 {
			return nil, fmt.Errorf("section %d: %d bytes too many: %w", p.sec+1, in.left, errMalformed)
		}
		if in.crc != s.crc {
			return nil, fmt.Errorf("section %d: checksum is wrong", p.sec+1)
		}
	}
	if err := x.checkBlocks(); err != nil {
		return nil, err
	}
	return x, nil
}

// sectionReader reads a section front to back; it cannot be asked for more than there is.
type sectionReader struct {
	in   *bufio.Reader
	left int64
	crc  uint32
	buf  []byte
}

func newSectionReader(f io.ReaderAt, s section) *sectionReader {
	size := int(min(64<<10, s.length))
	return &sectionReader{in: bufio.NewReaderSize(io.NewSectionReader(f, s.offset, s.length), size), left: s.length}
}

func (r *sectionReader) next(n int64) ([]byte, error) {
	if n > r.left {
		return nil, errMalformed
	}
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, err
	}
	r.left -= n
	r.crc = crc32.Update(r.crc, castagnoli(), b)
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
	if err := strict.Decode(new(meta)); err != nil {
		return newer("meta", err)
	}
	f, known := formatNamed(x.meta.Format)
	if !known {
		return newer("format", x.meta.Format)
	}
	if x.framing, err = f.Framing(x.meta.Framing); err != nil {
		return fmt.Errorf("framing: %w", err)
	}
	if x.meta.Overlap < 0 || x.meta.Overlap > maxChunkSize || x.meta.Scanner < 1 || x.meta.Cutter < 0 || x.meta.ChunkSize <= 0 || x.meta.ChunkSize > maxChunkSize {
		return errMalformed
	}
	if d := x.meta.Defaults; d.Shuffle == "" || d.Window == 0 || d.BatchSize == 0 || d.Tail == "" {
		return fmt.Errorf("a default is missing: %w", errMalformed)
	}
	return nil
}

func (x *Index) readShards(in *sectionReader) error {
	// Each shard takes 13 bytes at least, so the count cannot ask for more memory than the section justifies.
	if int64(x.head.shards) > in.left/13 {
		return errMalformed
	}
	x.shards = make([]Shard, x.head.shards)
	for i := range x.shards {
		b, err := in.next(12)
		if err != nil {
			return err
		}
		size, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
		if size > math.MaxInt64 || n == 0 || n > maxObjectKey {
			return fmt.Errorf("shard %d: %w", i, errMalformed)
		}
		if b, err = in.next(int64(n)); err != nil {
			return err
		}
		x.shards[i] = Shard{Key: string(b), Size: int64(size)}
		if err := checkShardKey(x.shards[i].Key); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if i > 0 && x.shards[i].Key <= x.shards[i-1].Key {
			return fmt.Errorf("shard %d: keys do not ascend: %w", i, errMalformed)
		}
	}
	return nil
}

// checkShardKey refuses keys that lead out of the dataset, or to objects that are no shards.
func checkShardKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if ownObject(key) {
		return fmt.Errorf("key %q is not that of a shard", key)
	}
	return nil
}

func (x *Index) readChunks(in *sectionReader) error {
	n := x.head.chunks
	x.first, x.hashes = make([]uint64, 1, n+1), make([][32]byte, n)
	x.crcs, x.lengths = make([]uint32, n), make([]uint32, n)
	var extents, bytes uint64
	for i := range n {
		b, err := in.next(chunkSize)
		if err != nil {
			return err
		}
		samples, length, count := binary.LittleEndian.Uint32(b[36:]), binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint32(b[48:])
		how, skip := codec.Codec(binary.LittleEndian.Uint32(b[52:])), binary.LittleEndian.Uint64(b[56:])
		if err := checkCodec(how, skip, uint64(count)); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		if how.Described() && x.head.version == 1 { // which has no place for its parameters
			return fmt.Errorf("chunk %d: %w", i, errMalformed)
		}
		if samples == 0 || 12*int64(samples)+4 > maxTable || length == 0 || length > maxChunkSize || count == 0 || uint64(samples) > length {
			return fmt.Errorf("chunk %d: %w", i, errMalformed)
		}
		copy(x.hashes[i][:], b)
		x.crcs[i], x.lengths[i] = binary.LittleEndian.Uint32(b[32:]), uint32(length)
		x.first = append(x.first, x.first[i]+uint64(samples))
		x.maxChunk = max(x.maxChunk, int64(length))
		extents += uint64(count)
		bytes += length
		if how != codec.None && x.packed == nil {
			x.packed = make([]packed, n)
		}
		if x.packed != nil {
			x.packed[i] = packed{how, uint32(skip)}
		}
		if count != 1 && x.extents.first == nil {
			x.extents.first = make([]uint64, n+1)
			for j := range i + 1 {
				x.extents.first[j] = j
			}
		}
		if x.extents.first != nil {
			x.extents.first[i+1] = extents
		}
	}
	if x.first[n] != x.head.samples || extents != x.head.extents || x.head.longest > x.maxChunk || !x.mayHold(bytes) {
		return fmt.Errorf("sums: %w", errMalformed)
	}
	return nil
}

// mayHold says whether chunks of so many bytes can hold the samples. Chunks hold gaps too, so there may be more of their bytes, but fewer
// only by what each sample may share with the one before.
func (x *Index) mayHold(chunks uint64) bool {
	all := uint64(x.head.bytes)
	return all <= chunks || x.meta.Overlap > 0 && (all-chunks-1)/uint64(x.meta.Overlap) < x.head.samples
}

func (x *Index) sizeOf(shard int) (int64, bool) {
	if shard < 0 || shard >= len(x.shards) {
		return 0, false
	}
	return x.shards[shard].Size, true
}

func (x *Index) readExtents(in *sectionReader) error {
	e := &x.extents
	e.shard, e.offset = make([]uint32, x.head.extents), make([]int64, x.head.extents)
	if e.first != nil || x.packed != nil {
		e.length = make([]int64, x.head.extents)
	}
	order := extentOrder{sizes: x.sizeOf, overlap: x.meta.Overlap}
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
			b, err := in.next(extentSize)
			if err != nil {
				return err
			}
			shard, off, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
			if shard >= uint64(len(x.shards)) || off > math.MaxInt64 || n > math.MaxInt64 {
				return fmt.Errorf("chunk %d: %w", i, errMalformed)
			}
			if err := order.next(Extent{Shard: int(shard), Offset: int64(off), Length: int64(n)}, int64(length), how); err != nil {
				return fmt.Errorf("chunk %d: %w", i, err)
			}
			e.shard[j], e.offset[j] = uint32(shard), int64(off)
			if e.length != nil {
				e.length[j] = int64(n)
			}
			j++
		}
		if err := order.endChunk(); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return nil
}

// checkBlocks checks that the blocks of names, parts and parameters follow each other and fill their sections.
func (x *Index) checkBlocks() error {
	s := x.head.sections[secBlocks]
	in := newSectionReader(x.file, s)
	row := x.head.blockRow()
	last, at := make([]uint64, row/8), make([]uint64, row/8)
	for i := range x.head.chunks + 1 {
		b, err := in.next(row)
		if err != nil {
			return err
		}
		for k := range at {
			at[k] = binary.LittleEndian.Uint64(b[8*k:])
			if (i == 0 && at[k] != 0) || (i > 0 && (at[k] < last[k]+4 || at[k]-last[k] > maxTable)) {
				return fmt.Errorf("block offsets of chunk %d: %w", i, errMalformed)
			}
		}
		last, at = at, last
	}
	for k, end := range last {
		if end != uint64(x.head.sections[blockSections()[k]].length) {
			return fmt.Errorf("block offsets: %w", errMalformed)
		}
	}
	return nil
}
