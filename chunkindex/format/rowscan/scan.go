package rowscan

import (
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Scan passes the rows of a shard to the cursor's sink as samples. Their keys begin with stem.
func Scan(c *format.Cursor, l *rows.Layout, stem string) error {
	s := scanner{Cursor: c, layout: l, stem: stem}
	for {
		if ended, err := s.Ended(); err != nil || ended {
			return err
		}
		if err := s.row(); err != nil {
			return err
		}
	}
}

// scanner reads the rows of one shard.
type scanner struct {
	*format.Cursor
	layout *rows.Layout
	stem   string // prefix of the samples' keys
	n      uint64 // rows found
	parts  []rows.Part
}

// row reads one row.
func (s *scanner) row() error {
	bitmap := int64(s.layout.Bitmap())
	head, err := s.Peek(bitmap)
	if err != nil {
		return err
	}
	lengths, err := s.layout.Lengths(head)
	if err != nil {
		return s.Fail("%v", err)
	}
	if head, err = s.Peek(bitmap + int64(lengths)); err != nil {
		return err
	}
	if int64(len(head)) < bitmap+int64(lengths) {
		return s.Fail("row is truncated")
	}
	if s.parts, err = s.layout.Parts(head[:bitmap], head[bitmap:], s.parts[:0]); err != nil {
		return s.Fail("%v", err)
	}
	if err := s.Begin(format.Numbered(s.stem, s.n)); err != nil {
		return err
	}
	s.n++
	total := bitmap + int64(lengths)
	for _, p := range s.parts {
		total += int64(p.Length)
	}
	s.Ahead(total)
	if err := s.Data(bitmap + int64(lengths)); err != nil {
		return err
	}
	for _, p := range s.parts {
		if err := s.Part(p.Path, int64(p.Length)); err != nil {
			return err
		}
	}
	return s.End()
}
