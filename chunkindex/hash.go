package chunkindex

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/millrace-data/millrace/internal/unnamed"
)

// hashKey is the first eight bytes, big-endian, of a key's SHA-256.
func hashKey(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8])
}

// hashed is one record of the hash section.
type hashed struct{ hash, sample uint64 }

// maxSortInMemory records are sorted at once; more are first divided by the top bits of their hashes.
const maxSortInMemory = 2 << 20

// hashSorter sorts any number of records, whose samples ascend, in bounded memory.
type hashSorter struct {
	max    int
	dir    string
	skip   uint // bits of the hash that are the same in all records
	bits   uint // the next ones, which choose a bucket
	memory []hashed
	file   *os.File // all records in the order of their coming, when they are too many
	buf    *bufio.Writer
	counts []int64
	first  uint64 // hash that was added
	added  bool   // there was one
	differ bool   // not all hashes are the same
	tmp    [16]byte
}

func newHashSorter(dir string, n uint64) (*hashSorter, error) {
	return newHashSorterOf(dir, n, maxSortInMemory, 0)
}

func newHashSorterOf(dir string, n uint64, limit int, skip uint) (*hashSorter, error) {
	s := &hashSorter{max: limit, dir: dir, skip: skip}
	if n <= uint64(limit) {
		s.memory = make([]hashed, 0, n)
		return s, nil
	}
	// Buckets half as full as the limit leave room for chance.
	for n>>s.bits > uint64(limit)/2 && s.bits < min(12, 64-skip) {
		s.bits++
	}
	var err error
	if s.file, err = unnamed.File(dir); err != nil {
		return nil, err
	}
	s.buf = bufio.NewWriterSize(s.file, 256<<10)
	s.counts = make([]int64, 1<<s.bits)
	return s, nil
}

func (s *hashSorter) close() {
	if s.file != nil {
		s.file.Close()
	}
}

func (s *hashSorter) bucket(hash uint64) uint64 { return hash << s.skip >> (64 - s.bits) }

func (s *hashSorter) add(hash, sample uint64) error {
	if s.file == nil {
		s.memory = append(s.memory, hashed{hash, sample})
		return nil
	}
	if !s.added {
		s.first, s.added = hash, true
	}
	s.differ = s.differ || hash != s.first
	s.counts[s.bucket(hash)]++
	binary.LittleEndian.PutUint64(s.tmp[:], hash)
	binary.LittleEndian.PutUint64(s.tmp[8:], sample)
	_, err := s.buf.Write(s.tmp[:])
	return err
}

// write writes the records, sorted, as pages.
func (s *hashSorter) write(out io.Writer) error {
	p := &pageWriter{out: out}
	if err := s.writeTo(p); err != nil {
		return err
	}
	return p.flush()
}

func (s *hashSorter) writeTo(p *pageWriter) error {
	if s.file == nil {
		return p.writeSorted(s.memory)
	}
	if err := s.buf.Flush(); err != nil {
		return err
	}
	sorted, err := s.divide()
	if err != nil {
		return err
	}
	defer sorted.Close()
	in := bufio.NewReaderSize(io.NewSectionReader(sorted, 0, 1<<62), 256<<10)
	for _, n := range s.counts {
		if err := s.writeBucket(p, in, n); err != nil {
			return err
		}
	}
	return nil
}

// writeBucket sorts a bucket in memory. One that is too full, because somebody chose the names or repeats them, is
// divided again; records of one hash are in order as they come.
func (s *hashSorter) writeBucket(p *pageWriter, in io.Reader, n int64) error {
	if n > int64(s.max) && s.differ {
		sub, err := newHashSorterOf(s.dir, uint64(n), s.max, s.skip+s.bits)
		if err != nil {
			return err
		}
		defer sub.close()
		err = s.each(in, n, func(r []hashed) error {
			for _, r := range r {
				if err := sub.add(r.hash, r.sample); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return sub.writeTo(p)
	}
	return s.each(in, n, p.writeSorted)
}

// each reads n records, as many at once as are sorted in memory.
func (s *hashSorter) each(in io.Reader, n int64, visit func([]hashed) error) error {
	var b [16]byte
	for n > 0 {
		s.memory = s.memory[:0]
		for ; n > 0 && len(s.memory) < s.max; n-- {
			if _, err := io.ReadFull(in, b[:]); err != nil {
				return err
			}
			s.memory = append(s.memory, hashed{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])})
		}
		if err := visit(s.memory); err != nil {
			return err
		}
	}
	return nil
}

// divide copies the records into a second file, bucket after bucket.
func (s *hashSorter) divide() (*os.File, error) {
	f, err := unnamed.File(s.dir)
	if err != nil {
		return nil, err
	}
	out := make([]*bufio.Writer, len(s.counts))
	var at int64
	for i, n := range s.counts {
		out[i] = bufio.NewWriterSize(io.NewOffsetWriter(f, at), 8<<10)
		at += 16 * n
	}
	in := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, at), 256<<10)
	var b [16]byte
	for err == nil {
		if _, err = io.ReadFull(in, b[:]); err == nil {
			_, err = out[s.bucket(binary.LittleEndian.Uint64(b[:]))].Write(b[:])
		}
	}
	if err == io.EOF { //nolint:errorlint // a reader ends with io.EOF itself; a wrapped one is a fault
		err = nil
	}
	for _, w := range out {
		if ferr := w.Flush(); err == nil {
			err = ferr
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// pageWriter packs sorted records into pages with a checksum each.
type pageWriter struct {
	out  io.Writer
	page [pageSize]byte
	n    int
}

func (p *pageWriter) writeSorted(recs []hashed) error {
	slices.SortFunc(recs, func(a, b hashed) int {
		switch {
		case a.hash != b.hash && a.hash < b.hash, a.hash == b.hash && a.sample < b.sample:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	for _, r := range recs {
		binary.LittleEndian.PutUint64(p.page[16*p.n:], r.hash)
		binary.LittleEndian.PutUint64(p.page[16*p.n+8:], r.sample)
		if p.n++; p.n == pageRecords {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pageWriter) flush() error {
	if p.n == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(p.page[16*pageRecords:], uint32(p.n))
	binary.LittleEndian.PutUint32(p.page[pageCRC:], crc32.Checksum(p.page[:pageCRC], castagnoli()))
	_, err := p.out.Write(p.page[:])
	p.page, p.n = [pageSize]byte{}, 0
	return err
}
