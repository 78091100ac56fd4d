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

// scanHead is the start of a frame, after the frame's length. Its extents and blocks follow.
type scanHead struct {
	CRC                    uint32
	Digest                 [32]byte
	Length                 int64
	Samples, Extents, Stem uint32
	Blocks                 [4]uint32
	Codec, Skip            uint32
}

func appendScanFrame(b []byte, r *layout.ChunkRecord) []byte {
	h := scanHead{CRC: r.CRC, Digest: r.Digest, Length: r.Length, Samples: r.Samples, Extents: uint32(len(r.Extents)), Stem: uint32(r.Stem), Codec: uint32(r.Codec), Skip: uint32(r.Skip)}
	for i, block := range r.Blocks() {
		h.Blocks[i] = uint32(len(*block))
	}
	b, _ = binary.Append(append(b[:0], 0, 0, 0, 0), binary.LittleEndian, h)
	for _, e := range r.Extents {
		b, _ = binary.Append(b, binary.LittleEndian, [3]int64{int64(e.Shard), e.Offset, e.Length})
	}
	for _, block := range r.Blocks() {
		b = append(b, *block...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func decodeScanFrame(r *layout.ChunkRecord, b []byte) error {
	var h scanHead
	n, err := binary.Decode(b, binary.LittleEndian, &h)
	all := 24 * uint64(h.Extents)
	for _, size := range h.Blocks {
		all += uint64(size)
	}
	if b = b[n:]; err != nil || uint64(len(b)) != all || h.Length < 0 || h.Stem > layout.MaxObjectKey {
		return layout.ErrMalformed
	}
	r.Reset()
	r.CRC, r.Digest, r.Length, r.Samples, r.Stem = h.CRC, h.Digest, h.Length, h.Samples, int(h.Stem)
	r.Codec, r.Skip = codec.Codec(h.Codec), int64(h.Skip)
	for range h.Extents {
		var e [3]int64
		n, _ := binary.Decode(b, binary.LittleEndian, &e)
		if b = b[n:]; uint64(e[0]) > layout.MaxShards {
			return layout.ErrMalformed
		}
		r.Extents = append(r.Extents, layout.Extent{Shard: int(e[0]), Offset: e[1], Length: e[2]})
	}
	for i, to := range r.Blocks() {
		*to, b = append(*to, b[:h.Blocks[i]]...), b[h.Blocks[i]:]
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
