// Package scantest runs a format's scanner over a shard and holds it to the rules that all
// scanners share.
package scantest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

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

// Objects are the objects of a dataset, by key. It is a format.Listing.
type Objects map[string][]byte

// Objects implements format.Listing.
func (o Objects) Objects() []format.Object {
	var all []format.Object
	for _, key := range slices.Sorted(maps.Keys(o)) {
		all = append(all, format.Object{Key: key, Size: int64(len(o[key]))})
	}
	return all
}

// First implements format.Listing.
func (o Objects) First(_ context.Context, key string, n int64) ([]byte, error) {
	b, ok := o[key]
	if !ok {
		return nil, fmt.Errorf("object %s: not found", key)
	}
	return b[:min(int64(len(b)), n)], nil
}

// Open implements format.Listing.
func (o Objects) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	b, err := o.First(ctx, key, math.MaxInt64)
	return io.NopCloser(bytes.NewReader(b[min(offset, int64(len(b))):])), err
}

// ErrRule is in the error of Scan when a scanner breaks a rule, by bytes left out, changed or out of turn.
var ErrRule = errors.New("scanner breaks a rule")

// Scan surveys a dataset and runs the scanner over each of its shards; what it found comes by the shard's key. A dataset that is
// not of the format has no shards.
func Scan(ctx context.Context, f format.Format, o format.Options, objects Objects) (map[string][]Sample, error) {
	d, err := f.Survey(ctx, objects, o)
	if err != nil || d == nil {
		return nil, err
	}
	found := map[string][]Sample{}
	for i, shard := range d.Shards {
		b := objects[shard.Key]
		s := &sink{shard: b, overlap: d.Overlap}
		err := d.Scan(ctx, i, bytes.NewReader(b), s)
		found[shard.Key] = s.samples
		if err != nil {
			return found, fmt.Errorf("shard %s: %w", shard.Key, err)
		}
		if s.open || s.part || s.off != int64(len(b)) {
			return found, fmt.Errorf("shard %s: %w: it ended at %d of %d, inside a sample: %v, inside a part: %v", shard.Key, ErrRule, s.off, len(b), s.open, s.part)
		}
	}
	return found, nil
}

type sink struct {
	shard      []byte
	off        int64
	overlap    int64
	ahead      int64 // offset that was promised to come
	open, part bool
	added      int64 // 1 when a line feed was added
	samples    []Sample
}

func breaks(how string, at ...any) error {
	return fmt.Errorf("%w: %s", ErrRule, fmt.Sprintf(how, at...))
}

func (s *sink) take(p []byte) error {
	if s.off+int64(len(p)) > int64(len(s.shard)) || !bytes.Equal(p, s.shard[s.off:s.off+int64(len(p))]) {
		return breaks("other bytes than those at %d", s.off)
	}
	s.off += int64(len(p))
	return nil
}

func (s *sink) last() *Sample { return &s.samples[len(s.samples)-1] }

func (s *sink) Gap(p []byte) error {
	if s.open {
		return breaks("gap inside a sample at %d", s.off)
	}
	return s.take(p)
}

func (s *sink) Begin(key string) error {
	if s.open {
		return breaks("sample begins inside another at %d", s.off)
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
		return breaks("data outside a sample at %d", s.off)
	}
	return s.take(p)
}

func (s *sink) LineFeed() error {
	if !s.open || s.part || s.added > 0 || s.off != int64(len(s.shard)) {
		return breaks("line feed added at %d, out of turn", s.off)
	}
	s.added = 1
	return nil
}

func (s *sink) Again(p []byte) error {
	n := int64(len(p))
	if !s.open || s.off != s.last().Offset || n > s.overlap || n > s.off || !bytes.Equal(p, s.shard[s.off-n:s.off]) {
		return breaks("other bytes again than those before %d, or out of turn", s.off)
	}
	s.last().Offset -= n
	return nil
}

func (s *sink) BeginPart(ext string) error {
	if !s.open || s.part {
		return breaks("part out of turn at %d", s.off)
	}
	s.part = true
	l := s.last()
	l.Parts = append(l.Parts, Part{Ext: ext, Offset: s.off - l.Offset})
	return nil
}

func (s *sink) EndPart() error {
	if !s.part {
		return breaks("part ends at %d without a beginning", s.off)
	}
	s.part = false
	l := s.last()
	p := &l.Parts[len(l.Parts)-1]
	p.Length = s.off - l.Offset - p.Offset
	return nil
}

func (s *sink) End() error {
	if !s.open || s.part || s.ahead > s.off+s.added {
		return breaks("sample ends at %d out of turn; %d was promised", s.off, s.ahead)
	}
	s.open = false
	l := s.last()
	l.Length = s.off + s.added - l.Offset
	return nil
}
