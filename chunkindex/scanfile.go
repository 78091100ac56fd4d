package chunkindex

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

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

// scanFile is the result of scanning one shard: frames of one chunk each, then the
// SHA-256 of them all. It outlives the run that wrote it, as an object, so it is checked when it is read.
type scanFile struct {
	path string
	size int64
	sum  totals
}

func (s *scanFile) totals() totals { return s.sum }

const (
	scanMagic    = "MRSCAN01"
	maxScanFrame = 64 << 20
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
	for _, e := range r.extents {
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
	const fixed = 4 + 32 + 8 + 16
	if len(b) < fixed {
		return errMalformed
	}
	r.reset()
	r.crc = binary.LittleEndian.Uint32(b)
	copy(r.digest[:], b[4:36])
	length := binary.LittleEndian.Uint64(b[36:])
	r.samples = binary.LittleEndian.Uint32(b[44:])
	extents, names, parts := binary.LittleEndian.Uint32(b[48:]), binary.LittleEndian.Uint32(b[52:]), binary.LittleEndian.Uint32(b[56:])
	b = b[fixed:]
	if uint64(len(b)) != 16*uint64(extents)+12*uint64(r.samples)+uint64(names)+uint64(parts) || length > math.MaxInt64 {
		return errMalformed
	}
	r.length = int64(length)
	for range extents {
		r.extents = append(r.extents, Extent{Offset: int64(binary.LittleEndian.Uint64(b)), Length: int64(binary.LittleEndian.Uint64(b[8:]))})
		b = b[16:]
	}
	r.table = append(r.table, b[:12*r.samples]...)
	b = b[12*r.samples:]
	r.names, r.parts = append(r.names, b[:names]...), append(r.parts, b[names:]...)
	return r.measure()
}

// measure checks the samples of a record that was read, and sums them up.
func (r *chunkRecord) measure() error {
	t, err := decodeTable(r.table, r.length, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, n := range t.Length {
		r.bytes += int64(n)
		r.longest = max(r.longest, int64(n))
	}
	return nil
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
		if n > maxScanFrame {
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

// maxScan is the length of the longest scan that a tar shard of this size can have, the shard's own and a
// little: each chunk, sample and part takes a header of 512 bytes in the shard, far more than its numbers take in the scan, and
// all names stand in the shard too.
func maxScan(shard int64) int64 {
	return shard + int64(len(scanMagic)) + sha256.Size
}

// fetchScan copies a scan of a shard of this size, which an earlier run left in the store, to dir and checks it.
func fetchScan(ctx context.Context, store objstore.Store, key, dir string, shard int64) (*scanFile, error) {
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
	n, err := io.Copy(f, io.LimitReader(in, maxScan(shard)+1))
	if err != nil {
		return nil, err
	}
	if n > maxScan(shard) {
		return nil, fmt.Errorf("scan %s: longer than the %d bytes that a shard of %d can have: %w", key, maxScan(shard), shard, errMalformed)
	}
	s := &scanFile{path: f.Name(), size: n}
	head := make([]byte, len(scanMagic))
	if n < maxScan(0) {
		return nil, fmt.Errorf("scan %s: %w", key, errMalformed)
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if string(head) != scanMagic {
		return nil, fmt.Errorf("scan %s: %w", key, errMalformed)
	}
	sum, tail := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, n-sha256.Size)); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(tail, n-sha256.Size); err != nil {
		return nil, err
	}
	if string(sum.Sum(nil)) != string(tail) {
		return nil, fmt.Errorf("scan %s: digest is wrong", key)
	}
	var end int64
	err = s.each(func(r *chunkRecord) error {
		s.sum.add(r)
		return r.check(&end, shard)
	})
	return s, err
}
