package chunkindex

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
)

// totals of one shard, or of an index, from which the layout of the index file follows.
type totals struct {
	chunks, extents, samples uint64
	bytes, longest           int64
	names, parts             uint64 // bytes of the blocks, without checksums
}

func (t *totals) add(r *chunkRecord) {
	t.chunks++
	t.extents += uint64(len(r.extents))
	t.samples += uint64(r.samples)
	t.bytes += r.bytes
	t.longest = max(t.longest, r.longest)
	t.names += uint64(len(r.names))
	t.parts += uint64(len(r.parts))
}

func (t *totals) join(o totals) {
	t.chunks += o.chunks
	t.extents += o.extents
	t.samples += o.samples
	t.bytes += o.bytes
	t.longest = max(t.longest, o.longest)
	t.names += o.names
	t.parts += o.parts
}

// scanned is what is known of one shard's chunks: in a scan file, or in an earlier index.
type scanned interface {
	totals() totals
	// each calls visit for every chunk in order. The record is valid until visit returns.
	each(visit func(*chunkRecord) error) error
}

// scanFile is the result of scanning one shard, or one run of loose objects: frames of one chunk each, then the
// SHA-256 of them all. It outlives the run that wrote it, as an object, so it is checked when it is read.
type scanFile struct {
	path string
	size int64
	sum  totals
}

func (s *scanFile) totals() totals { return s.sum }

const (
	scanMagic    = "MRSCAN02"
	maxScanFrame = 256 << 20
)

func appendScanFrame(b []byte, r *chunkRecord) []byte {
	b = binary.LittleEndian.AppendUint32(b[:0], 0)
	b = binary.LittleEndian.AppendUint32(b, r.crc)
	b = append(b, r.digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.length))
	b = binary.LittleEndian.AppendUint32(b, r.samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.names)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.parts)))
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
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func decodeScanFrame(r *chunkRecord, b []byte) error {
	const fixed = 4 + 32 + 8 + 16 + 8
	if len(b) < fixed {
		return errMalformed
	}
	r.reset()
	r.crc = binary.LittleEndian.Uint32(b)
	copy(r.digest[:], b[4:36])
	length := binary.LittleEndian.Uint64(b[36:])
	r.samples = binary.LittleEndian.Uint32(b[44:])
	extents, names, parts := binary.LittleEndian.Uint32(b[48:]), binary.LittleEndian.Uint32(b[52:]), binary.LittleEndian.Uint32(b[56:])
	r.codec, r.skip = codec.Codec(binary.LittleEndian.Uint32(b[60:])), int64(binary.LittleEndian.Uint32(b[64:]))
	b = b[fixed:]
	if uint64(len(b)) != 24*uint64(extents)+12*uint64(r.samples)+uint64(names)+uint64(parts) || length > math.MaxInt64 {
		return errMalformed
	}
	r.length = int64(length)
	for range extents {
		shard := binary.LittleEndian.Uint64(b)
		if shard > maxShards {
			return errMalformed
		}
		r.extents = append(r.extents, Extent{Shard: int(shard), Offset: int64(binary.LittleEndian.Uint64(b[8:])), Length: int64(binary.LittleEndian.Uint64(b[16:]))})
		b = b[24:]
	}
	r.table = append(r.table, b[:12*r.samples]...)
	b = b[12*r.samples:]
	r.names, r.parts = append(r.names, b[:names]...), append(r.parts, b[names:]...)
	r.measure()
	return nil
}

// measure sums up the samples of a record that was read.
func (r *chunkRecord) measure() {
	for b := r.table; len(b) > 0; b = b[12:] {
		n := int64(binary.LittleEndian.Uint32(b[4:]))
		r.bytes += n
		r.longest = max(r.longest, n)
	}
}

// scanWriter writes a scan file.
type scanWriter struct {
	file *os.File
	buf  *bufio.Writer
	sum  totals
	tmp  []byte
}

func newScanWriter(dir string) (*scanWriter, error) {
	f, err := os.CreateTemp(dir, "scan-*")
	if err != nil {
		return nil, err
	}
	w := &scanWriter{file: f, buf: bufio.NewWriterSize(f, 64<<10)}
	_, err = w.buf.WriteString(scanMagic)
	return w, err
}

func (w *scanWriter) write(r *chunkRecord) error {
	w.sum.add(r)
	w.tmp = appendScanFrame(w.tmp, r)
	_, err := w.buf.Write(w.tmp)
	return err
}

// finish ends the file with its digest and closes it.
func (w *scanWriter) finish() (*scanFile, error) {
	err := w.buf.Flush()
	sum := sha256.New()
	var n int64
	if err == nil {
		n, err = io.Copy(sum, io.NewSectionReader(w.file, 0, math.MaxInt64))
	}
	if err == nil {
		_, err = w.file.WriteAt(sum.Sum(nil), n)
	}
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return &scanFile{path: w.file.Name(), size: n + sha256.Size, sum: w.sum}, nil
}

func (w *scanWriter) discard() {
	w.file.Close()
	os.Remove(w.file.Name())
}

func (s *scanFile) each(visit func(*chunkRecord) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(io.NewSectionReader(f, int64(len(scanMagic)), s.size-sha256.Size-int64(len(scanMagic))), 256<<10)
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
		if err := visit(&rec); err != nil {
			return err
		}
	}
}

// maxScan is the length beyond which a scan is neither kept nor taken over: of objects of so many bytes in all. A sample takes a
// hundred bytes in a scan, more or less, and has a few hundred itself; where samples are smaller, or the object is compressed, this
// leaves room. A scan that is longer all the same is made again when it is needed.
func maxScan(objects int, size int64) int64 {
	const fixed, object, factor = int64(len(scanMagic)) + sha256.Size, 4 << 10, 64
	return fixed + int64(objects)*object + factor*min(size, math.MaxInt64/(2*factor))
}

// fetchScan copies a scan, which an earlier run left in the store, to dir and checks that it can be one of objects of
// these sizes.
func fetchScan(ctx context.Context, store objstore.Store, key, dir string, sizes []int64, overlap int64) (*scanFile, error) {
	var size int64
	for _, n := range sizes {
		size += n
	}
	in, err := store.Open(ctx, objstore.Ref{Key: key}, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := os.CreateTemp(dir, "scan-*")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := maxScan(len(sizes), size)
	n, err := io.Copy(f, io.LimitReader(in, most+1))
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, fmt.Errorf("scan %s: longer than the %d bytes that objects of %d can have: %w", key, most, size, errMalformed)
	}
	s := &scanFile{path: f.Name(), size: n}
	if err := s.checkDigest(f); err != nil {
		return nil, fmt.Errorf("scan %s: %w", key, err)
	}
	order := extentOrder{overlap: overlap, sizes: func(i int) (int64, bool) {
		if i < 0 || i >= len(sizes) {
			return 0, false
		}
		return sizes[i], true
	}}
	err = s.each(func(r *chunkRecord) error {
		s.sum.add(r)
		return r.check(&order)
	})
	return s, err
}

// checkDigest holds a scan to its magic and its SHA-256.
func (s *scanFile) checkDigest(f *os.File) error {
	n := s.size - sha256.Size
	head := make([]byte, len(scanMagic))
	if n < int64(len(head)) {
		return errMalformed
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	if string(head) != scanMagic {
		return errMalformed
	}
	sum, tail := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, n)); err != nil {
		return err
	}
	if _, err := f.ReadAt(tail, n); err != nil {
		return err
	}
	if string(sum.Sum(nil)) != string(tail) {
		return errors.New("digest is wrong")
	}
	return nil
}
