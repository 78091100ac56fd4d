package build

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// shardScan is one shard that is written into a segment.
type shardScan struct {
	key  string
	size int64
	scan chunkSource // scan of this shard, or of the run that begins with it; nil: the shard is part of a run that began earlier
}

// sectionWriter writes one section sequentially at its position in the file.
type sectionWriter struct {
	buf *bufio.Writer
	n   int64
}

func (w *sectionWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return w.buf.Write(p)
}

// segmentWriter combines the scans of some shards into a segment. It holds at most one chunk's
// record in memory.
type segmentWriter struct {
	dir    string
	file   *os.File
	base   int64 // offset of the segment in the file
	head   layout.Header
	out    [layout.NumSections]*sectionWriter
	hashes *hashSorter
	tmp    []byte
	sample uint64
	before uint64    // number of samples of the current shard written so far
	stem   int       // stem length of the current shard
	blocks [4]uint64 // offset of the next block of each kind within its section
}

// writeSegment writes a segment of the shards, in the given order, at an offset of a file. Sorted
// hashes need space in dir.
func writeSegment(dir string, f *os.File, base int64, shards []shardScan) (ref layout.SegmentRef, err error) {
	w := &segmentWriter{dir: dir, file: f, base: base}
	w.head.Shards = uint64(len(shards))
	var table int64
	for _, s := range shards {
		if s.scan != nil {
			w.head.Join(s.scan.totals())
		}
		table += 12 + int64(len(s.key))
	}
	w.head.Place(table)
	for i := range w.out[:layout.SecDigests] {
		w.out[i] = &sectionWriter{buf: bufio.NewWriterSize(io.NewOffsetWriter(f, base+w.head.Sections[i].Offset), 64<<10)}
	}
	if w.hashes, err = newHashSorter(w.dir, w.head.Hashed(), maxSortInMemory, 0); err != nil {
		return ref, err
	}
	defer w.hashes.close()
	for i, s := range shards {
		if err := w.shard(uint32(i), s); err != nil {
			return ref, fmt.Errorf("shard %s: %w", s.key, err)
		}
	}
	w.blockOffsets()
	if err := w.hashes.write(w.out[layout.SecHash]); err != nil {
		return ref, err
	}
	return w.finish()
}

// shard writes one shard. The buffered writers retain write errors until finish.
func (w *segmentWriter) shard(n uint32, s shardScan) error {
	w.before, w.stem = 0, 0
	if s.scan != nil {
		if err := s.scan.take(func(r *layout.ChunkRecord) error { return w.record(n, s.key, r) }); err != nil {
			return err
		}
	}
	b := binary.LittleEndian.AppendUint64(w.tmp[:0], uint64(s.size))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s.key)))
	b = binary.LittleEndian.AppendUint16(b, uint16(w.stem))
	w.tmp = append(b, s.key...)
	w.out[layout.SecShards].Write(w.tmp)
	return nil
}

// record writes one chunk of the scan that begins with this shard.
func (w *segmentWriter) record(shard uint32, key string, r *layout.ChunkRecord) error {
	b := append(w.tmp[:0], r.Digest[:]...)
	b = binary.LittleEndian.AppendUint32(b, r.CRC)
	b = binary.LittleEndian.AppendUint32(b, r.Samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Length))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Codec))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Skip))
	w.out[layout.SecChunks].Write(b)
	b = b[:0]
	for _, e := range r.Extents {
		b = binary.LittleEndian.AppendUint32(b, shard+uint32(e.Shard))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Length))
	}
	w.out[layout.SecExtents].Write(b)
	w.tmp = b
	w.blockOffsets()
	for i, block := range r.Blocks() {
		w.out[layout.BlockSections()[i]].Write(*block)
		w.blocks[i] += uint64(len(*block))
	}
	if len(r.Names) == 0 {
		w.stem = r.Stem
	}
	first, rule := w.sample, layout.KeyRule{Stem: key[:r.Stem], First: w.before}
	w.sample += uint64(r.Samples)
	w.before += uint64(r.Samples)
	if w.head.Hashed() == 0 {
		return nil
	}
	return layout.EachKey(r.Names, r.Samples, rule, func(i uint32, key []byte) error {
		return w.hashes.add(layout.HashKey(key), first+uint64(i))
	})
}

// blockOffsets records the offsets at which the next chunk's blocks begin.
func (w *segmentWriter) blockOffsets() {
	w.tmp = w.tmp[:0]
	for _, at := range w.blocks {
		w.tmp = binary.LittleEndian.AppendUint64(w.tmp, at)
	}
	w.out[layout.SecBlocks].Write(w.tmp)
}

// finish flushes the sections and writes the header and digests.
func (w *segmentWriter) finish() (ref layout.SegmentRef, err error) {
	for i, s := range w.out[:layout.SecDigests] {
		if err := s.buf.Flush(); err != nil {
			return ref, err
		}
		if s.n != w.head.Sections[i].Length {
			return ref, fmt.Errorf("section %d has %d bytes, not %d", i+1, s.n, w.head.Sections[i].Length)
		}
	}
	digests, err := layout.SumPages(w.file, w.base+w.head.Sections[layout.SecDigests].End(), w.base+w.head.Size())
	if err != nil {
		return ref, err
	}
	w.head.Digest = sha256.Sum256(digests)
	head := w.head.Encode()
	_, err = w.file.WriteAt(append(head, digests...), w.base)
	return layout.SegmentRef{Digest: sha256.Sum256(head), Size: w.head.Size(), Resident: w.head.Resident()}, err
}
