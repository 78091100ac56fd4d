package build

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// chunkSource provides the chunks of one unit, from a scan file or an earlier index.
type chunkSource interface {
	totals() layout.Totals
	// each calls visit for every chunk in order. The record is valid until visit returns.
	each(visit func(*layout.ChunkRecord) error) error
	// take is like each, but also frees the space of visited chunks. Callers must call it last.
	take(visit func(*layout.ChunkRecord) error) error
}

// scanFile is the scan of one shard or one run of loose objects: a sequence of frames, each with
// one chunk. It is a range of a file that all scans of a worker share.
type scanFile struct {
	file *os.File
	off  int64
	size int64
	sum  layout.Totals
}

func (s *scanFile) totals() layout.Totals { return s.sum }

// releaseAfter is the number of scan bytes that are freed at a time.
const releaseAfter = 16 << 20

func (s *scanFile) take(visit func(*layout.ChunkRecord) error) error {
	var visited, released int64
	release := func() {
		tempfile.Release(s.file, s.off+released, visited-released)
		released = visited
	}
	err := s.each(func(r *layout.ChunkRecord) error {
		visited += r.Frame
		if visited-released >= releaseAfter {
			release()
		}
		return visit(r)
	})
	if err == nil {
		release()
	}
	return err
}

const maxScanFrame = 256 << 20

func appendScanFrame(b []byte, r *layout.ChunkRecord) []byte {
	b = binary.LittleEndian.AppendUint32(b[:0], 0)
	b = binary.LittleEndian.AppendUint32(b, r.CRC)
	b = append(b, r.Digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Length))
	b = binary.LittleEndian.AppendUint32(b, r.Samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Stem))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Table)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Names)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Parts)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Params)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Codec))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Skip))
	for _, e := range r.Extents {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Shard))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Length))
	}
	b = append(b, r.Table...)
	b = append(b, r.Names...)
	b = append(b, r.Parts...)
	b = append(b, r.Params...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func decodeScanFrame(r *layout.ChunkRecord, b []byte) error {
	const fixed = 4 + 32 + 8 + 28 + 8
	if len(b) < fixed {
		return layout.ErrMalformed
	}
	r.Reset()
	r.CRC = binary.LittleEndian.Uint32(b)
	copy(r.Digest[:], b[4:36])
	length := binary.LittleEndian.Uint64(b[36:])
	r.Samples = binary.LittleEndian.Uint32(b[44:])
	extents, stem := binary.LittleEndian.Uint32(b[48:]), binary.LittleEndian.Uint32(b[52:])
	var blocks [4]uint32
	var all uint64
	for i := range blocks {
		blocks[i] = binary.LittleEndian.Uint32(b[56+4*i:])
		all += uint64(blocks[i])
	}
	r.Codec, r.Skip = codec.Codec(binary.LittleEndian.Uint32(b[72:])), int64(binary.LittleEndian.Uint32(b[76:]))
	b = b[fixed:]
	if uint64(len(b)) != 24*uint64(extents)+all || length > math.MaxInt64 || stem > layout.MaxObjectKey {
		return layout.ErrMalformed
	}
	r.Length, r.Stem = int64(length), int(stem)
	for range extents {
		shard := binary.LittleEndian.Uint64(b)
		if shard > layout.MaxShards {
			return layout.ErrMalformed
		}
		r.Extents = append(r.Extents, layout.Extent{Shard: int(shard), Offset: int64(binary.LittleEndian.Uint64(b[8:])), Length: int64(binary.LittleEndian.Uint64(b[16:]))})
		b = b[24:]
	}
	for i, to := range []*[]byte{&r.Table, &r.Names, &r.Parts, &r.Params} {
		*to, b = append(*to, b[:blocks[i]]...), b[blocks[i]:]
	}
	return nil
}

// scanWriter writes the scans of one worker sequentially to an unnamed file.
type scanWriter struct {
	file *os.File
	buf  *bufio.Writer
	end  int64 // offset after the finished scans
	n    int64 // number of bytes in the current scan
	sum  layout.Totals
	tmp  []byte
}

func newScanWriter(dir string) (*scanWriter, error) {
	f, err := tempfile.File(dir)
	if err != nil {
		return nil, err
	}
	return &scanWriter{file: f, buf: bufio.NewWriterSize(f, 64<<10)}, nil
}

// begin starts a scan. It discards an unfinished scan.
func (w *scanWriter) begin() {
	w.n, w.sum = 0, layout.Totals{}
	w.buf.Reset(io.NewOffsetWriter(w.file, w.end))
}

// Write appends bytes of a stored scan.
func (w *scanWriter) Write(p []byte) (int, error) {
	n, err := w.buf.Write(p)
	w.n += int64(n)
	return n, err
}

func (w *scanWriter) write(r *layout.ChunkRecord) error {
	w.sum.Add(r)
	w.tmp = appendScanFrame(w.tmp, r)
	_, err := w.Write(w.tmp)
	return err
}

// finish ends the scan.
func (w *scanWriter) finish() (*scanFile, error) {
	if err := w.buf.Flush(); err != nil {
		return nil, err
	}
	s := &scanFile{file: w.file, off: w.end, size: w.n, sum: w.sum}
	w.end += w.n
	return s, nil
}

// section returns a reader of the scan's bytes.
func (s *scanFile) section() *io.SectionReader { return io.NewSectionReader(s.file, s.off, s.size) }

func (s *scanFile) each(visit func(*layout.ChunkRecord) error) error {
	in := bufio.NewReaderSize(s.section(), int(min(s.size, 256<<10)))
	var head [4]byte
	var frame []byte
	var rec layout.ChunkRecord
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > maxScanFrame || int64(n) > s.size {
			return layout.ErrMalformed
		}
		if uint32(cap(frame)) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if err := decodeScanFrame(&rec, frame); err != nil {
			return err
		}
		rec.Frame = int64(len(head) + len(frame))
		if err := visit(&rec); err != nil {
			return err
		}
	}
}

// maxScan returns the maximum length of a scan that is stored or reused, for objects with this
// total size. A sample needs about a hundred bytes in a scan and usually has a few hundred bytes
// itself. The factor leaves room for smaller samples and compressed objects. Longer scans are not
// stored, and a later run repeats them.
func maxScan(objects int, size int64) int64 {
	const object, factor = 4 << 10, 64
	return int64(objects)*object + factor*min(size, math.MaxInt64/(2*factor))
}

// check validates the chunks of a source against its shards and computes their totals.
func check(s chunkSource, shards []layout.Shard, overlap int64) (sum layout.Totals, err error) {
	order := layout.ExtentOrder{Overlap: overlap, Shards: shards}
	return sum, s.each(func(r *layout.ChunkRecord) error {
		if err := r.Check(&order); err != nil {
			return err
		}
		sum.Add(r)
		return nil
	})
}
