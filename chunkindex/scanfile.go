package chunkindex

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// totals of one shard, or of an index, from which the layout of the index file follows.
type totals struct {
	chunks, extents, samples uint64
	bytes, longest           int64
	partCount                uint64
	listed                   uint64 // samples whose names are listed, and follow from no rule

	tables, names, parts, params uint64 // bytes of the blocks
}

func (t *totals) add(r *chunkRecord) {
	t.chunks++
	t.extents += uint64(len(r.extents))
	t.samples += uint64(r.samples)
	t.bytes += r.bytes
	t.longest = max(t.longest, r.longest)
	t.partCount += r.count
	if len(r.names) > 0 {
		t.listed += uint64(r.samples)
	}
	t.tables += uint64(len(r.table))
	t.names += uint64(len(r.names))
	t.parts += uint64(len(r.parts))
	t.params += uint64(len(r.params))
}

func (t *totals) join(o totals) {
	t.chunks += o.chunks
	t.extents += o.extents
	t.samples += o.samples
	t.bytes += o.bytes
	t.longest = max(t.longest, o.longest)
	t.partCount += o.partCount
	t.listed += o.listed
	t.tables += o.tables
	t.names += o.names
	t.parts += o.parts
	t.params += o.params
}

// scanned is what is known of one shard's chunks: in a scan file, or in an earlier index.
type scanned interface {
	totals() totals
	// each calls visit for every chunk in order. The record is valid until visit returns.
	each(visit func(*chunkRecord) error) error
	// take is each, and gives back the space of what was visited: nothing reads it any more.
	take(visit func(*chunkRecord) error) error
}

// scanFile is the result of scanning one shard, or one run of loose objects: frames of one chunk each, in a part of a file
// that the scans of one worker share.
type scanFile struct {
	file *os.File
	off  int64
	size int64
	sum  totals
}

func (s *scanFile) totals() totals { return s.sum }

// releaseAfter is how many bytes of a scan are given back at a time.
const releaseAfter = 16 << 20

func (s *scanFile) take(visit func(*chunkRecord) error) error {
	var visited, released int64
	release := func() {
		tempfile.Release(s.file, s.off+released, visited-released)
		released = visited
	}
	err := s.each(func(r *chunkRecord) error {
		visited += r.frame
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

func appendScanFrame(b []byte, r *chunkRecord) []byte {
	b = binary.LittleEndian.AppendUint32(b[:0], 0)
	b = binary.LittleEndian.AppendUint32(b, r.crc)
	b = append(b, r.digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.length))
	b = binary.LittleEndian.AppendUint32(b, r.samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.stem))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.table)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.names)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.parts)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.params)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.codec))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.skip))
	for _, e := range r.extents {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Shard))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Length))
	}
	b = append(b, r.table...)
	b = append(b, r.names...)
	b = append(b, r.parts...)
	b = append(b, r.params...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func decodeScanFrame(r *chunkRecord, b []byte) error {
	const fixed = 4 + 32 + 8 + 28 + 8
	if len(b) < fixed {
		return errMalformed
	}
	r.reset()
	r.crc = binary.LittleEndian.Uint32(b)
	copy(r.digest[:], b[4:36])
	length := binary.LittleEndian.Uint64(b[36:])
	r.samples = binary.LittleEndian.Uint32(b[44:])
	extents, stem := binary.LittleEndian.Uint32(b[48:]), binary.LittleEndian.Uint32(b[52:])
	var blocks [4]uint32
	var all uint64
	for i := range blocks {
		blocks[i] = binary.LittleEndian.Uint32(b[56+4*i:])
		all += uint64(blocks[i])
	}
	r.codec, r.skip = codec.Codec(binary.LittleEndian.Uint32(b[72:])), int64(binary.LittleEndian.Uint32(b[76:]))
	b = b[fixed:]
	if uint64(len(b)) != 24*uint64(extents)+all || length > math.MaxInt64 || stem > maxObjectKey {
		return errMalformed
	}
	r.length, r.stem = int64(length), int(stem)
	for range extents {
		shard := binary.LittleEndian.Uint64(b)
		if shard > maxShards {
			return errMalformed
		}
		r.extents = append(r.extents, Extent{Shard: int(shard), Offset: int64(binary.LittleEndian.Uint64(b[8:])), Length: int64(binary.LittleEndian.Uint64(b[16:]))})
		b = b[24:]
	}
	for i, to := range []*[]byte{&r.table, &r.names, &r.parts, &r.params} {
		*to, b = append(*to, b[:blocks[i]]...), b[blocks[i]:]
	}
	return nil
}

// scanWriter writes the scans of one worker, one after another, to a file without a name.
type scanWriter struct {
	file *os.File
	buf  *bufio.Writer
	end  int64 // of the scans that are finished
	n    int64 // bytes of the one at hand
	sum  totals
	tmp  []byte
}

func newScanWriter(dir string) (*scanWriter, error) {
	f, err := tempfile.File(dir)
	if err != nil {
		return nil, err
	}
	return &scanWriter{file: f, buf: bufio.NewWriterSize(f, 64<<10)}, nil
}

// begin begins a scan, over whatever was written of one that was not finished.
func (w *scanWriter) begin() {
	w.n, w.sum = 0, totals{}
	w.buf.Reset(io.NewOffsetWriter(w.file, w.end))
}

// Write takes bytes of a scan that was kept.
func (w *scanWriter) Write(p []byte) (int, error) {
	n, err := w.buf.Write(p)
	w.n += int64(n)
	return n, err
}

func (w *scanWriter) write(r *chunkRecord) error {
	w.sum.add(r)
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

// section reads the scan's bytes.
func (s *scanFile) section() *io.SectionReader { return io.NewSectionReader(s.file, s.off, s.size) }

func (s *scanFile) each(visit func(*chunkRecord) error) error {
	in := bufio.NewReaderSize(s.section(), int(min(s.size, 256<<10)))
	var head [4]byte
	var frame []byte
	var rec chunkRecord
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > maxScanFrame || int64(n) > s.size {
			return errMalformed
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
		rec.frame = int64(len(head) + len(frame))
		if err := visit(&rec); err != nil {
			return err
		}
	}
}

// maxScan is the length beyond which a scan is neither kept nor taken over: of objects of so many bytes in all. A sample takes a
// hundred bytes in a scan, more or less, and has a few hundred itself; where samples are smaller, or the object is compressed, this
// leaves room. A scan that is longer all the same is made again when it is needed.
func maxScan(objects int, size int64) int64 {
	const object, factor = 4 << 10, 64
	return int64(objects)*object + factor*min(size, math.MaxInt64/(2*factor))
}

// check holds a scan that was kept to what one of these objects can be, and sums it up.
func (s *scanFile) check(shards []Shard, overlap int64) error {
	order := extentOrder{overlap: overlap, shards: shardsNumbered(shards)}
	s.sum = totals{}
	return s.each(func(r *chunkRecord) error {
		if err := r.check(&order); err != nil {
			return err
		}
		s.sum.add(r)
		return nil
	})
}

// shardsNumbered tells an extentOrder of shards by their places.
func shardsNumbered(shards []Shard) func(int) (string, int64, bool) {
	return func(i int) (string, int64, bool) {
		if i < 0 || i >= len(shards) {
			return "", 0, false
		}
		return shards[i].Key, shards[i].Size, true
	}
}
