package records

import (
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// scanner reads one shard.
type scanner struct {
	*format.Cursor
	stem string // prefix of the samples' keys
	n    uint64 // records read
}

// stem returns the prefix of the keys of a shard's samples.
func stem(key string) string { return format.Stem(key, ".bin", ".raw", ".dat", ".npy") }

// all reads records until the end of the shard.
func (s *scanner) all(size int64) error {
	for {
		end, err := s.Ended()
		if end || err != nil {
			return err
		}
		if err := s.record(size); err != nil {
			return err
		}
	}
}

// array reads an .npy file, whose layout must equal the first file's layout.
func (s *scanner) array(first string, want framing.Layout) error {
	head, err := s.Peek(format.HeadSize)
	if err != nil {
		return err
	}
	a, err := framing.ReadNPY(head)
	if err != nil {
		return s.Fail("%v", err)
	}
	have, err := a.Layout()
	if err != nil {
		return s.Fail("%v", err)
	}
	if !have.Equal(want) {
		return s.Fail("samples have type and shape %v, but samples of %s have %v: shards of one dataset must have the same type and shape", have, first, want)
	}
	if err := s.Gap(a.Start); err != nil {
		return err
	}
	for s.n < a.Shape[0] {
		if err := s.record(want.Size()); err != nil {
			return err
		}
	}
	if end, err := s.Ended(); end || err != nil {
		return err
	}
	return s.Fail("more bytes follow the %d samples of the header", a.Shape[0])
}

// record reads a record that is a single array.
func (s *scanner) record(size int64) error {
	s.n++
	return s.Whole(format.Numbered(s.stem, s.n-1), framing.ArrayPart, size, size, false)
}
