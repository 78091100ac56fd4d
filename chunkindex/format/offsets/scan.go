// Package offsets reads shards that begin with a table of 32-bit offsets: the number of samples,
// the start of each sample and the end of the last sample. A sample begins with the lengths of its
// variable-size fields. MosaicML's MDS has this format, and LitData's chunks adopted it.
//
// Both libraries store an index.json with their shards. Every shard must agree with it.
package offsets

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	// MaxSamples limits the samples of a shard, because the scan holds the shard's offset table
	// in memory.
	MaxSamples = 1 << 25
	maxHeader  = 1 << 20 // maximum bytes between the table and the first sample
)

// Field is a part of every sample of a dataset.
type Field struct {
	Name string
	Size int64 // size in bytes; 0: stored with each sample
}

// Shard describes a shard before the scan reads it.
type Shard struct {
	Stem    string // prefix of the samples' keys
	Samples uint64
	Bytes   int64 // total decoded bytes
	Fields  []Field
	Header  func(b []byte) error // checks the bytes between the table and the first sample; nil: there are no such bytes
	Tail    string               // explanation of bytes after the last sample, for errors

	// Block is the length of fixed-size samples. The scan cuts them from the data after the
	// table, and ignores the items in the table. Samples is then the number of items, and the
	// only field is the whole sample. A remainder at the end is in no sample.
	Block int64

	// Bare means that the shard has neither a table nor a header: each sample begins where the
	// preceding one ends.
	Bare bool
}

// Scan scans a shard. It returns an error if the shard does not match its description.
func (s Shard) Scan(c *format.Cursor) error {
	if s.Samples > MaxSamples {
		return fmt.Errorf("%d samples exceed the limit of a shard, %d", s.Samples, MaxSamples)
	}
	sizes := int64(0)
	for _, f := range s.Fields {
		if f.Size == 0 {
			sizes += 4
		}
	}
	r := &scanner{Shard: s, Cursor: c, sizes: sizes, lengths: make([]int64, len(s.Fields))}
	return r.run()
}

type scanner struct {
	Shard
	*format.Cursor
	sizes   int64   // length of the field lengths at the start of a sample
	lengths []int64 // lengths of all fields of the current sample
}

func fail(off int64, reason string, args ...any) error {
	return &format.Error{Offset: off, Reason: fmt.Sprintf(reason, args...)}
}

func (s *scanner) run() (err error) {
	var table []byte
	offset := func(i uint64) int64 { return int64(binary.LittleEndian.Uint32(table[4*i:])) }
	if !s.Bare {
		if table, err = s.table(); err == nil {
			err = s.check(offset)
		}
		if err == nil {
			err = s.header(offset(0))
		}
	}
	if err == nil && s.Block > 0 {
		err = s.blocks()
	} else {
		for i := uint64(0); i < s.Samples && err == nil; i++ {
			n := int64(0)
			if !s.Bare {
				n = offset(i+1) - offset(i)
			}
			err = s.sample(i, n)
		}
	}
	if err != nil {
		return err
	}
	if end, err := s.Ended(); end || err != nil {
		return err
	}
	return s.Fail("shard is longer than its size in index.json, %d bytes", s.Bytes)
}

// next returns the next n bytes, or an error if the shard is truncated.
func (s *scanner) next(n int64) ([]byte, error) {
	b, err := s.Peek(n)
	if err == nil && int64(len(b)) < n {
		err = fail(s.Offset()+int64(len(b)), "shard is truncated: according to index.json it has %d bytes", s.Bytes)
	}
	return b, err
}

// table reads the offsets. It allocates memory only as data arrives.
func (s *scanner) table() ([]byte, error) {
	b, err := s.next(4)
	if err != nil {
		return nil, err
	}
	if n := binary.LittleEndian.Uint32(b); uint64(n) != s.Samples {
		return nil, s.Fail("shard has %d samples, but %d according to index.json", n, s.Samples)
	}
	if err := s.Gap(4); err != nil {
		return nil, err
	}
	left := 4 * (int64(s.Samples) + 1)
	if left > s.Bytes-4 {
		return nil, s.Fail("a table of %d samples does not fit into a shard of %d bytes", s.Samples, s.Bytes)
	}
	var table []byte
	for left > 0 {
		if b, err = s.next(min(left, maxHeader)); err != nil {
			return nil, err
		}
		table = append(table, b...)
		left -= int64(len(b))
		if err := s.Gap(int64(len(b))); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// check validates all offsets before the scan passes any sample on.
func (s *scanner) check(offset func(uint64) int64) error {
	if offset(0) < s.Offset() {
		return fail(4, "the first sample would begin at %d, inside the table of offsets", offset(0))
	}
	for i := range s.Samples {
		if offset(i+1) < offset(i) {
			return fail(8+4*int64(i), "sample %d would end at %d, before it begins at %d: offsets must ascend", i, offset(i+1), offset(i))
		}
	}
	switch last := offset(s.Samples); {
	case last > s.Bytes:
		return s.Fail("the last sample would end at %d, after the shard's end at %d", last, s.Bytes)
	case last < s.Bytes:
		return fail(last, "%d bytes follow the last sample%s", s.Bytes-last, s.Tail)
	}
	return nil
}

// header reads the bytes before the first sample.
func (s *scanner) header(first int64) error {
	n := first - s.Offset()
	switch {
	case n > maxHeader:
		return s.Fail("header of %d bytes is longer than %d", n, maxHeader)
	case n > 0 && s.Header == nil:
		return s.Fail("%d unexpected bytes between the table of offsets and the first sample", n)
	case s.Header == nil:
		return nil
	}
	b, err := s.next(n)
	if err != nil {
		return err
	}
	if err := s.Header(b); err != nil {
		return s.Fail("header: %v", err)
	}
	return s.Gap(n)
}

// sample passes sample i to the cursor. It has n bytes, unless the shard is bare.
func (s *scanner) sample(i uint64, n int64) error {
	if err := s.Begin(format.Numbered(s.Stem, i)); err != nil {
		return err
	}
	if s.Bare {
		sizes, err := s.next(s.sizes)
		if err != nil {
			return err
		}
		n = s.measure(sizes)
	}
	switch {
	case n == 0:
		return s.Fail("empty sample%s", s.Tail)
	case n > format.MaxSample:
		return s.Fail("%d bytes exceed the limit of a sample, %d", n, format.MaxSample)
	case n < s.sizes:
		return s.Fail("%d bytes are too few for the lengths of its fields", n)
	}
	sizes, err := s.next(s.sizes)
	if err != nil {
		return err
	}
	if sum := s.measure(sizes); sum != n {
		return s.Fail("the fields and their lengths have %d bytes, but the sample has %d", sum, n)
	}
	s.Ahead(n)
	if err := s.Data(s.sizes); err != nil {
		return err
	}
	for j, f := range s.Fields {
		if err := s.Part(f.Name, s.lengths[j]); err != nil {
			return err
		}
	}
	return s.End()
}

// blocks cuts the data after the table into samples.
func (s *scanner) blocks() error {
	for i := uint64(0); s.Bytes-s.Offset() >= s.Block; i++ {
		if err := s.Whole(format.Numbered(s.Stem, i), s.Fields[0].Name, s.Block, s.Block, false); err != nil {
			return err
		}
	}
	return s.Gap(s.Bytes - s.Offset())
}

// measure computes the field lengths of a sample and its total length.
func (s *scanner) measure(sizes []byte) int64 {
	sum, at := s.sizes, sizes
	for j, f := range s.Fields {
		s.lengths[j] = f.Size
		if f.Size == 0 {
			s.lengths[j] = int64(binary.LittleEndian.Uint32(at))
			at = at[4:]
		}
		sum += s.lengths[j]
	}
	return sum
}
