// Package scantest runs a format's scanner over a shard and checks that the scanner follows the
// rules for all scanners.
package scantest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Sample is one sample that a scanner found.
type Sample struct {
	Key            string
	Offset, Length int64
	Parts          []Part
}

// Part is a part of a sample. Offset is relative to the sample.
type Part struct {
	Ext            string
	Offset, Length int64
}

// Objects contains the objects of a dataset by key. It implements format.Listing.
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

// Scan surveys a dataset and runs the scanner over each of its shards. It returns the samples by
// shard key. If the format does not claim the dataset, the result is empty.
func Scan(ctx context.Context, f format.Format, o format.Options, objects Objects) (map[string][]Sample, error) {
	return scan(ctx, f, o, objects, func(string) bool { return true })
}

// scan runs the scanner over the shards for which wanted returns true.
func scan(ctx context.Context, f format.Format, o format.Options, objects Objects, wanted func(shard string) bool) (map[string][]Sample, error) {
	d, err := f.Survey(ctx, objects, o)
	if err != nil || d == nil {
		return nil, err
	}
	found := map[string][]Sample{}
	for i, shard := range d.Shards {
		if !wanted(shard.Key) {
			continue
		}
		b, err := decoded(ctx, d, i, objects[shard.Key])
		if err != nil {
			return found, fmt.Errorf("shard %s: %w", shard.Key, err)
		}
		s := &sink{shard: b, overlap: d.Overlap}
		err = d.Scan(ctx, i, bytes.NewReader(b), s)
		found[shard.Key] = s.samples
		if err != nil {
			return found, fmt.Errorf("shard %s: %w", shard.Key, err)
		}
		if s.open || s.off != int64(len(b)) {
			return found, fmt.Errorf("shard %s: %w: it ended at %d of %d, inside a sample: %v", shard.Key, format.ErrRule, s.off, len(b), s.open)
		}
	}
	return found, nil
}

// decoded returns the decoded bytes that a scan of a shard reads.
func decoded(ctx context.Context, d *format.Dataset, shard int, stored []byte) ([]byte, error) {
	if d.Decode == nil || len(stored) == 0 {
		return stored, nil
	}
	in, err := d.Decode(ctx, shard, ranges(stored))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// ranges implements format.Ranges for bytes in memory.
type ranges []byte

// ReadRange implements format.Ranges.
func (r ranges) ReadRange(_ context.Context, offset int64, p []byte) error {
	_, err := io.ReadFull(io.NewSectionReader(bytes.NewReader(r), offset, int64(len(p))), p)
	return err
}

// sink checks the calls of a scanner against the bytes of the shard, and records the samples.
type sink struct {
	shard   []byte
	off     int64
	overlap int64
	open    bool  // a sample has begun
	added   int64 // 1 if the scanner added a line feed to the sample
	samples []Sample
}

func breaks(how string, at ...any) error {
	return fmt.Errorf("%w: %s", format.ErrRule, fmt.Sprintf(how, at...))
}

func (s *sink) take(p []byte) error {
	if s.off+int64(len(p)) > int64(len(s.shard)) || !bytes.Equal(p, s.shard[s.off:s.off+int64(len(p))]) {
		return breaks("other bytes than those at %d", s.off)
	}
	s.off += int64(len(p))
	return nil
}

func (s *sink) Gap(p []byte) error {
	if s.open {
		return breaks("gap inside a sample at %d", s.off)
	}
	return s.take(p)
}

func (s *sink) Data(of *format.Sample, p []byte) error {
	if !s.open {
		s.open = true
		shared := int64(of.Shared)
		if s.off -= shared; shared < 0 || shared > s.overlap || s.off < 0 || len(s.samples) == 0 && shared > 0 {
			return breaks("%d bytes shared at %d", shared, s.off)
		}
		s.samples = append(s.samples, Sample{Key: of.Key, Offset: s.off})
	}
	if l := s.samples[len(s.samples)-1]; l.Key != of.Key {
		return breaks("sample %q goes on as %q", l.Key, of.Key)
	}
	return s.take(p)
}

func (s *sink) End(of *format.Sample) error {
	if !s.open || s.added > 0 || of.LineFeed && s.off != int64(len(s.shard)) {
		return breaks("sample ends at %d out of turn", s.off)
	}
	s.open = false
	if of.LineFeed {
		s.added = 1
	}
	l := &s.samples[len(s.samples)-1]
	l.Length = s.off + s.added - l.Offset
	at := int64(0)
	for _, p := range of.Parts {
		if p.Offset < at || p.Length < 0 || p.Offset+p.Length > l.Length {
			return breaks("part %q of sample %q is out of turn, or outside the sample", p.Ext, l.Key)
		}
		at = p.Offset + p.Length
		if from := l.Offset + p.Offset; crc32.Checksum(s.shard[from:from+p.Length], crc32.MakeTable(crc32.Castagnoli)) != p.CRC32C {
			return breaks("part %q of sample %q has another checksum", p.Ext, l.Key)
		}
		l.Parts = append(l.Parts, Part{Ext: p.Ext, Offset: p.Offset, Length: p.Length})
	}
	return nil
}
