// Package scantest runs a format's scanner over a shard and holds it to the rules that all
// scanners share.
package scantest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Sample is what a scanner found.
type Sample struct {
	Key            string
	Offset, Length int64
	Parts          []Part
}

// Part is a part of a sample, by its place in it.
type Part struct {
	Ext            string
	Offset, Length int64
}

// Scan runs a scanner over the bytes of a shard. A scanner that breaks a rule, by bytes
// left out, changed or out of turn, is an error like any other.
func Scan(ctx context.Context, f format.Format, shard []byte) ([]Sample, error) {
	s := &sink{shard: shard}
	if err := f.Scan(ctx, bytes.NewReader(shard), s); err != nil {
		return s.samples, err
	}
	if s.open || s.part || s.off != int64(len(shard)) {
		return s.samples, fmt.Errorf("scanner ended at %d of %d, inside a sample: %v, inside a part: %v", s.off, len(shard), s.open, s.part)
	}
	return s.samples, nil
}

type sink struct {
	shard      []byte
	off        int64
	ahead      int64 // offset that was promised to come
	open, part bool
	samples    []Sample
}

func (s *sink) take(p []byte) error {
	if s.off+int64(len(p)) > int64(len(s.shard)) || !bytes.Equal(p, s.shard[s.off:s.off+int64(len(p))]) {
		return fmt.Errorf("scanner handed on other bytes than those at %d", s.off)
	}
	s.off += int64(len(p))
	return nil
}

func (s *sink) last() *Sample { return &s.samples[len(s.samples)-1] }

func (s *sink) Gap(p []byte) error {
	if s.open {
		return fmt.Errorf("gap inside a sample at %d", s.off)
	}
	return s.take(p)
}

func (s *sink) Begin(key string) error {
	if s.open {
		return fmt.Errorf("sample begins inside another at %d", s.off)
	}
	s.open, s.ahead = true, s.off
	s.samples = append(s.samples, Sample{Key: key, Offset: s.off})
	return nil
}

func (s *sink) Ahead(n int64) error {
	s.ahead = max(s.ahead, s.off+n)
	return nil
}

func (s *sink) Data(p []byte) error {
	if !s.open {
		return fmt.Errorf("data outside a sample at %d", s.off)
	}
	return s.take(p)
}

func (s *sink) BeginPart(ext string) error {
	if !s.open || s.part {
		return fmt.Errorf("part out of turn at %d", s.off)
	}
	s.part = true
	l := s.last()
	l.Parts = append(l.Parts, Part{Ext: ext, Offset: s.off - l.Offset})
	return nil
}

func (s *sink) EndPart() error {
	if !s.part {
		return fmt.Errorf("part ends at %d without a beginning", s.off)
	}
	s.part = false
	l := s.last()
	p := &l.Parts[len(l.Parts)-1]
	p.Length = s.off - l.Offset - p.Offset
	return nil
}

func (s *sink) End() error {
	if !s.open || s.part || s.ahead > s.off {
		return fmt.Errorf("sample ends at %d out of turn; %d was promised", s.off, s.ahead)
	}
	s.open = false
	l := s.last()
	l.Length = s.off - l.Offset
	return nil
}
