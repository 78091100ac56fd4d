package build

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// maxSortInMemory limits the number of records that are sorted in memory at a time. More records
// are first divided by the top bits of their hashes.
const maxSortInMemory = 2 << 20

// hashSorter sorts any number of records in bounded memory. The caller adds records in the order of
// their samples.
type hashSorter struct {
	max     int
	dir     string
	skip    uint // leading hash bits that are equal in all records
	bits    uint // number of the following bits, which select a bucket
	memory  []layout.HashRecord
	file    *os.File // holds segments of buckets, if the records exceed memory
	end     int64
	buckets []bucket
}

// bucket holds the records of a hash range in the order of arrival.
type bucket struct {
	segments []uint32 // segment numbers in the file
	tail     []byte   // records that do not fill a segment yet
	n        int64
}

const (
	recordSize  = 16
	segmentSize = 256 * recordSize
)

func newHashSorter(dir string, n uint64, limit int, skip uint) (*hashSorter, error) {
	s := &hashSorter{max: limit, dir: dir, skip: skip}
	if n <= uint64(limit) {
		s.memory = make([]layout.HashRecord, 0, n)
		return s, nil
	}
	// Aim for half-full buckets, because hashes may be uneven.
	for n>>s.bits > uint64(limit)/2 && s.bits < min(12, 64-skip) {
		s.bits++
	}
	var err error
	if s.file, err = tempfile.File(dir); err != nil {
		return nil, err
	}
	s.buckets = make([]bucket, 1<<s.bits)
	return s, nil
}

func (s *hashSorter) close() {
	if s.file != nil {
		s.file.Close()
	}
}

func (s *hashSorter) bucket(hash uint64) *bucket { return &s.buckets[hash<<s.skip>>(64-s.bits)] }

func (s *hashSorter) add(hash, sample uint64) error {
	if s.file == nil {
		s.memory = append(s.memory, layout.HashRecord{Hash: hash, Sample: sample})
		return nil
	}
	b := s.bucket(hash)
	b.n++
	b.tail = binary.LittleEndian.AppendUint64(b.tail, hash)
	b.tail = binary.LittleEndian.AppendUint64(b.tail, sample)
	if len(b.tail) < segmentSize {
		return nil
	}
	_, err := s.file.WriteAt(b.tail, s.end)
	b.segments = append(b.segments, uint32(s.end/segmentSize))
	b.tail = b.tail[:0]
	s.end += segmentSize
	return err
}

// write writes the sorted records as pages.
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
	for i := range s.buckets {
		if err := s.writeBucket(p, &s.buckets[i]); err != nil {
			return err
		}
		s.buckets[i] = bucket{}
	}
	return nil
}

// writeBucket sorts a bucket in memory. If a bucket is too large, because of crafted or repeated
// names, writeBucket divides it further. Records with the same hash are already in order.
func (s *hashSorter) writeBucket(p *pageWriter, b *bucket) error {
	if b.n > int64(s.max) && s.skip+s.bits < 64 {
		sub, err := newHashSorter(s.dir, uint64(b.n), s.max, s.skip+s.bits)
		if err != nil {
			return err
		}
		defer sub.close()
		err = s.each(b, func(r []layout.HashRecord) error {
			for _, r := range r {
				if err := sub.add(r.Hash, r.Sample); err != nil {
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
	return s.each(b, p.writeSorted)
}

// each reads the records of a bucket in batches that fit into memory, and frees the file space of
// records that it has read.
func (s *hashSorter) each(b *bucket, visit func([]layout.HashRecord) error) error {
	s.memory = s.memory[:0]
	take := func(raw []byte) error {
		for ; len(raw) > 0; raw = raw[recordSize:] {
			s.memory = append(s.memory, layout.HashRecord{Hash: binary.LittleEndian.Uint64(raw), Sample: binary.LittleEndian.Uint64(raw[8:])})
			if len(s.memory) < s.max {
				continue
			}
			if err := visit(s.memory); err != nil {
				return err
			}
			s.memory = s.memory[:0]
		}
		return nil
	}
	segment := make([]byte, segmentSize)
	for _, n := range b.segments {
		at := segmentSize * int64(n)
		if _, err := s.file.ReadAt(segment, at); err != nil {
			return err
		}
		tempfile.Release(s.file, at, segmentSize)
		if err := take(segment); err != nil {
			return err
		}
	}
	if err := take(b.tail); err != nil {
		return err
	}
	return visit(s.memory)
}

// pageWriter packs sorted records into pages, each with a checksum.
type pageWriter struct {
	out  io.Writer
	page [layout.PageSize]byte
	n    int
}

func (p *pageWriter) writeSorted(recs []layout.HashRecord) error {
	slices.SortFunc(recs, func(a, b layout.HashRecord) int {
		return cmp.Or(cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Sample, b.Sample))
	})
	for _, r := range recs {
		binary.LittleEndian.PutUint64(p.page[16*p.n:], r.Hash)
		binary.LittleEndian.PutUint64(p.page[16*p.n+8:], r.Sample)
		if p.n++; p.n == layout.PageRecords {
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
	binary.LittleEndian.PutUint32(p.page[16*layout.PageRecords:], uint32(p.n))
	binary.LittleEndian.PutUint32(p.page[layout.PageCRC:], crc32.Checksum(p.page[:layout.PageCRC], layout.Castagnoli()))
	_, err := p.out.Write(p.page[:])
	p.page, p.n = [layout.PageSize]byte{}, 0
	return err
}
