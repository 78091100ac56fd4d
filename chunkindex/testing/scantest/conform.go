package scantest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Dataset is the dataset of a format and the options of the suite. It should be small, because the
// suite reads it about ten thousand times, and should have two or more shards.
type Dataset struct {
	Format  format.Format
	Options format.Options
	Objects Objects
	// Mend corrects the checksums of a shard that the suite has modified, so that the suite
	// also tests the checks after the checksums. nil: the format has no checksums.
	Mend func(shard []byte)
	// AsShard returns a dataset whose only shard is a batch with this number of samples. nil: a
	// batch is not a valid shard.
	AsShard func(batch []byte, samples int) Objects
	// Framing reads the framing of a format that is not in the table of package framing. nil:
	// the format is in the table.
	Framing func(constants json.RawMessage) (format.Framing, error)
}

func (d *Dataset) readFraming(constants json.RawMessage) (format.Framing, error) {
	if d.Framing != nil {
		return d.Framing(constants)
	}
	return framing.Read(d.Format.Name, constants)
}

// Numbers of bytes at the start of an object that the suite modifies, one after the other.
const (
	mostFlipped = 4 << 10 // the suite flips every bit of these bytes
	mostResized = 1 << 10 // the suite writes a dozen numbers at each of these bytes
)

// Conforms checks a format against the rules for all formats. It scans the dataset unchanged and
// with many modifications.
func Conforms(t *testing.T, d Dataset) {
	t.Helper()
	want, err := Scan(t.Context(), d.Format, d.Options, d.Objects)
	if err != nil || len(want) == 0 {
		t.Fatalf("got %d shards, %v", len(want), err)
	}
	s := suite{d, want}
	t.Run("samples", s.samples)
	t.Run("survey", s.survey)
	t.Run("pieces", s.pieces)
	t.Run("faults", s.faults)
	t.Run("framing", s.framing)
	t.Run("truncated", s.truncated)
	t.Run("bits", s.bits)
	t.Run("sizes", s.sizes)
	if slices.Contains(build.FormatNames(), d.Format.Name) {
		t.Run("parts", func(t *testing.T) { Parts(t, d) })
	}
}

// Fuzz fuzzes the objects of a dataset, one at a time.
func Fuzz(f *testing.F, d Dataset) {
	keys := slices.Sorted(maps.Keys(d.Objects))
	for i, key := range keys {
		f.Add(uint8(i), bytes.Clone(d.Objects[key]))
	}
	f.Fuzz(func(t *testing.T, which uint8, object []byte) {
		key := keys[int(which)%len(keys)]
		object = bytes.Clone(object)
		if d.Mend != nil {
			d.Mend(object)
		}
		(&suite{Dataset: d}).harmless(t, "fuzzed", key, object)
	})
}

// suite is a dataset and its expected samples by shard.
type suite struct {
	Dataset
	want map[string][]Sample
}

// find surveys the dataset again and returns the result.
func (s *suite) find(t *testing.T) *format.Dataset {
	t.Helper()
	d, err := s.Format.Survey(t.Context(), s.Objects, s.Options)
	if err != nil || d == nil {
		t.Fatalf("survey: got %v, %v", d, err)
	}
	return d
}

// samples checks that each sample has at least one byte, at least one part, and a key that is
// unique in its shard.
func (s *suite) samples(t *testing.T) {
	for shard, all := range s.want {
		keys := map[string]bool{}
		for _, one := range all {
			if one.Key == "" || keys[one.Key] || one.Length == 0 || len(one.Parts) == 0 {
				t.Errorf("shard %s: got %+v, want a unique key, a byte and a part", shard, one)
			}
			keys[one.Key] = true
		}
	}
}

// survey checks that two surveys agree, and list existing shards in the order of their keys.
func (s *suite) survey(t *testing.T) {
	one, two := s.find(t), s.find(t)
	if !reflect.DeepEqual(one.Shards, two.Shards) || !bytes.Equal(one.Framing, two.Framing) {
		t.Errorf("got %+v and %+v of one dataset", one, two)
	}
	for i, shard := range one.Shards {
		if b, ok := s.Objects[shard.Key]; !ok || shard.Size != int64(len(b)) || i > 0 && one.Shards[i-1].Key >= shard.Key {
			t.Errorf("shard %+v does not exist, or is not in the order of keys", shard)
		}
	}
}

// pieces checks that the samples do not depend on the sizes of the reads or on parallel scans.
func (s *suite) pieces(t *testing.T) {
	d := s.find(t)
	for how, pieces := range map[string]func(io.Reader) io.Reader{
		"whole": func(in io.Reader) io.Reader { return in }, "byte by byte": iotest.OneByteReader, "with its end": iotest.DataErrReader,
	} {
		var group sync.WaitGroup
		for i, shard := range d.Shards {
			group.Go(func() {
				b := s.decoded(t, d, i)
				out := &sink{shard: b, overlap: d.Overlap}
				if err := d.Scan(t.Context(), i, pieces(bytes.NewReader(b)), out); err != nil || !slices.EqualFunc(out.samples, s.want[shard.Key], same) {
					t.Errorf("shard %s, %s: got %+v, %v, want %+v", shard.Key, how, out.samples, err, s.want[shard.Key])
				}
			})
		}
		group.Wait()
	}
}

// decoded returns the bytes that the next scan of a shard reads.
func (s *suite) decoded(t *testing.T, d *format.Dataset, shard int) []byte {
	t.Helper()
	b, err := decoded(t.Context(), d, shard, s.Objects[d.Shards[shard].Key])
	if err != nil {
		t.Errorf("decode shard %s: %v", d.Shards[shard].Key, err)
	}
	return b
}

func same(a, b Sample) bool { return reflect.DeepEqual(a, b) }

// faults checks that neither a store error nor a canceled context is mistaken for the end of a
// shard.
func (s *suite) faults(t *testing.T) {
	d := s.find(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i, shard := range d.Shards {
		b := s.decoded(t, d, i)
		for n := 0; n <= len(b); n += max(1, len(b)/1000) {
			s.decoded(t, d, i)
			if err := d.Scan(t.Context(), i, Broken{In: bytes.NewReader(b[:n])}, Nothing{}); !errors.Is(err, ErrBroken) {
				t.Fatalf("shard %s, a fault after %d bytes: got %v, want %v", shard.Key, n, err, ErrBroken)
			}
		}
		s.decoded(t, d, i)
		if err := d.Scan(gone, i, bytes.NewReader(b), Nothing{}); len(b) > 0 && !errors.Is(err, context.Canceled) {
			t.Errorf("shard %s, canceled: got %v, want %v", shard.Key, err, context.Canceled)
		}
	}
}

// framing checks that the survey's constants are accepted and that other constants are harmless. If
// a batch is a valid shard, scanning it must return the samples that were written to it.
func (s *suite) framing(t *testing.T) {
	for _, constants := range []string{"", "null", "{}", "[]", "1", `{"unknown":1}`, `{"`} {
		if f, err := s.readFraming(json.RawMessage(constants)); err == nil && f != nil && f.ContentType() == "" {
			t.Errorf("constants %s: no content type", constants)
		}
	}
	d := s.find(t)
	f, err := s.readFraming(d.Framing)
	if err != nil {
		t.Fatalf("constants %s of the survey: %v", d.Framing, err)
	}
	if f == nil {
		return
	}
	for i, shard := range d.Shards {
		var lengths []uint32
		var body []byte
		all := s.want[shard.Key]
		decoded := s.decoded(t, d, i)
		for _, one := range all {
			b := append(bytes.Clone(decoded), '\n') // a batch adds the line feed that the last line lacks
			lengths, body = append(lengths, uint32(one.Length)), append(body, b[one.Offset:one.Offset+one.Length]...)
		}
		before, after, err := f.Frame(lengths)
		if err != nil {
			t.Fatalf("frame of the samples of %s: %v", shard.Key, err)
		}
		if s.AsShard == nil || len(all) == 0 {
			continue
		}
		again, err := Scan(t.Context(), s.Format, s.Options, s.AsShard(slices.Concat(before, body, after), len(all)))
		if err != nil || len(again) != 1 {
			t.Fatalf("a batch of the samples of %s: got %+v, %v", shard.Key, again, err)
		}
		for _, got := range again {
			if !slices.EqualFunc(got, all, func(a, b Sample) bool { return a.Length == b.Length && reflect.DeepEqual(a.Parts, b.Parts) }) {
				t.Errorf("a batch of the samples of %s: got %+v, want %+v", shard.Key, got, all)
			}
		}
	}
}

// truncated checks that a truncated shard yields only samples from the shard's beginning.
func (s *suite) truncated(t *testing.T) {
	d := s.find(t)
	for i, shard := range d.Shards {
		b := s.decoded(t, d, i)
		for n := 0; n < len(b); n += max(1, len(b)>>14) {
			s.decoded(t, d, i)
			out := &sink{shard: b[:n], overlap: d.Overlap}
			if err := d.Scan(t.Context(), i, bytes.NewReader(b[:n]), out); errors.Is(err, format.ErrRule) {
				t.Fatalf("shard %s of %d bytes: %v", shard.Key, n, err)
			}
			got := out.samples
			if out.open {
				got = got[:len(got)-1]
			}
			if w := s.want[shard.Key]; !begins(w, got) {
				t.Fatalf("shard %s of %d bytes: got %+v, want some of %+v", shard.Key, n, got, w)
			}
		}
		stored := s.Objects[shard.Key]
		for n := 0; n < len(stored); n += max(1, len(stored)>>14) {
			s.harmless(t, fmt.Sprintf("of %d bytes", n), shard.Key, stored[:n])
		}
	}
}

// begins reports whether some contains the first samples of all. The last sample of some may be
// shorter.
func begins(all, some []Sample) bool {
	last := len(some) - 1
	if last < 0 || last >= len(all) {
		return last < 0
	}
	a, b := all[last], some[last]
	return slices.EqualFunc(some[:last], all[:last], same) && a.Key == b.Key && a.Offset == b.Offset && b.Length <= a.Length
}

// bits checks that flipping any bit is harmless.
func (s *suite) bits(t *testing.T) {
	s.change(t, func(b []byte, try func(what string, at int)) {
		for at := range min(len(b), mostFlipped) {
			for bit := range 8 {
				b[at] ^= 1 << bit
				try(fmt.Sprintf("bit %d", bit), at)
				b[at] ^= 1 << bit
			}
		}
	})
}

// sizes checks that writing any number, however large, at any position is harmless.
func (s *suite) sizes(t *testing.T) {
	extremes := []string{
		"\xff\xff", "\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\x7f\xff\xff\xff", "\x00\x00\x00\x80", "\x00\x00\x00\x00", "\x00\x00\x00\x40",
		"\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\x7f", "\x7f\xff\xff\xff\xff\xff\xff\xff", "\xf0\xff\xff\xff\xff\xff\xff\x7f",
		"77777777777", "99999999", "-1",
	}
	s.change(t, func(b []byte, try func(what string, at int)) {
		for at := range min(len(b), mostResized) {
			for _, extreme := range extremes {
				was := bytes.Clone(b)
				copy(b[at:], extreme)
				try(fmt.Sprintf("%q", extreme), at)
				if s.Mend != nil {
					s.Mend(b)
					try(fmt.Sprintf("%q, mended", extreme), at)
				}
				copy(b, was)
			}
		}
	})
}

// change calls each for every object of the dataset, with a copy that each may modify. The other
// objects stay unchanged.
func (s *suite) change(t *testing.T, each func(b []byte, try func(what string, at int))) {
	t.Helper()
	for key, object := range s.Objects {
		b := bytes.Clone(object)
		each(b, func(what string, at int) {
			s.harmless(t, fmt.Sprintf("%s at byte %d", what, at), key, b)
		})
	}
}

// mostMemory limits the bytes that a scan of a small shard may allocate for its buffers and
// results.
const mostMemory = 4 << 20

// harmless checks that a modified object is rejected or yields only samples of existing bytes. A
// size that the object claims must not allocate memory.
func (s *suite) harmless(t *testing.T, how, key string, changed []byte) {
	t.Helper()
	objects := maps.Clone(s.Objects)
	objects[key] = changed
	before := allocated()
	_, err := scan(t.Context(), s.Format, s.Options, objects, func(shard string) bool {
		_, is := s.want[key]
		return !is || shard == key // an object that is not a shard may affect any shard
	})
	if n := allocated() - before; n > mostMemory+64*uint64(len(changed)) {
		t.Fatalf("object %s, %s: %d bytes of memory for %d", key, how, n, len(changed))
	}
	if errors.Is(err, format.ErrRule) {
		t.Fatalf("object %s, %s: %v", key, how, err)
	}
}

// allocated returns the number of bytes that this program has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
