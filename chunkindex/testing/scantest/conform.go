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

// Dataset is a dataset that a format reads, and what the suite may do to it. A small one is best: the suite reads it some ten thousand
// times. It should have two shards or more.
type Dataset struct {
	Format  format.Format
	Options format.Options
	Objects Objects
	// Mend makes the checksums right of a shard that was changed on purpose, so that what they protect is tested too. nil: the format has
	// none.
	Mend func(shard []byte)
	// AsShard returns the dataset whose one shard is a batch of so many samples. nil: a batch is no shard.
	AsShard func(batch []byte, samples int) Objects
	// Framing is that of a format that is not in the table of framings. nil: it is there.
	Framing func(constants json.RawMessage) (format.Framing, error)
}

func (d *Dataset) readFraming(constants json.RawMessage) (format.Framing, error) {
	if d.Framing != nil {
		return d.Framing(constants)
	}
	return framing.Read(d.Format.Name, constants)
}

// How many of the first bytes of an object the suite changes, one after the other.
const (
	mostFlipped = 4 << 10 // each bit of them
	mostResized = 1 << 10 // where each of a dozen numbers is put
)

// Conforms holds a format to all that every format promises, whatever is done to its dataset.
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

// Fuzz has a fuzzer change the objects of a dataset, one at a time.
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

// suite is one dataset, and the samples that it has.
type suite struct {
	Dataset
	want map[string][]Sample
}

// find surveys the dataset anew.
func (s *suite) find(t *testing.T) *format.Dataset {
	t.Helper()
	d, err := s.Format.Survey(t.Context(), s.Objects, s.Options)
	if err != nil || d == nil {
		t.Fatalf("survey: got %v, %v", d, err)
	}
	return d
}

// samples: each has a key of its own in its shard, a byte, and a part.
func (s *suite) samples(t *testing.T) {
	for shard, all := range s.want {
		keys := map[string]bool{}
		for _, one := range all {
			if one.Key == "" || keys[one.Key] || one.Length == 0 || len(one.Parts) == 0 {
				t.Errorf("shard %s: got %+v, want a key that no other has, a byte and a part", shard, one)
			}
			keys[one.Key] = true
		}
	}
}

// survey: it says the same each time, of shards that are there, in the order of their keys.
func (s *suite) survey(t *testing.T) {
	one, two := s.find(t), s.find(t)
	if !reflect.DeepEqual(one.Shards, two.Shards) || !bytes.Equal(one.Framing, two.Framing) {
		t.Errorf("got %+v and %+v of one dataset", one, two)
	}
	for i, shard := range one.Shards {
		if b, ok := s.Objects[shard.Key]; !ok || shard.Size != int64(len(b)) || i > 0 && one.Shards[i-1].Key >= shard.Key {
			t.Errorf("shard %+v is not there, or not in the order of keys", shard)
		}
	}
}

// pieces: shards that are read side by side, and in whatever pieces, have the same samples.
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

// faults: a fault of the store, or a caller that has gone, is never the end of a shard.
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
			t.Errorf("shard %s, nobody waits: got %v, want %v", shard.Key, err, context.Canceled)
		}
	}
}

// framing: it takes the constants of the survey, no others do harm, and where a batch is a shard, it has the samples that were put into it.
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
			b := append(bytes.Clone(decoded), '\n') // which one that lacks its line feed has
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

// truncated: of a shard that ends early, no other samples are found than those at its beginning.
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

// begins says whether samples begin as all do, and the last one as the one in its place.
func begins(all, some []Sample) bool {
	last := len(some) - 1
	if last < 0 || last >= len(all) {
		return last < 0
	}
	a, b := all[last], some[last]
	return slices.EqualFunc(some[:last], all[:last], same) && a.Key == b.Key && a.Offset == b.Offset && b.Length <= a.Length
}

// bits: no bit that is wrong does harm.
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

// sizes: no number does harm, however large it is, whichever bytes it has.
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

// change has each object of the dataset changed, all others left as they are.
func (s *suite) change(t *testing.T, each func(b []byte, try func(what string, at int))) {
	t.Helper()
	for key, object := range s.Objects {
		b := bytes.Clone(object)
		each(b, func(what string, at int) {
			s.harmless(t, fmt.Sprintf("%s at byte %d", what, at), key, b)
		})
	}
}

// mostMemory is what a scan of a small shard may take, in bytes: its buffers, and a little for what it finds.
const mostMemory = 4 << 20

// harmless checks that an object that was changed does no harm: it is refused, or has samples of bytes that are there, and takes no memory for
// what it merely promises.
func (s *suite) harmless(t *testing.T, how, key string, changed []byte) {
	t.Helper()
	objects := maps.Clone(s.Objects)
	objects[key] = changed
	before := allocated()
	_, err := scan(t.Context(), s.Format, s.Options, objects, func(shard string) bool {
		_, is := s.want[key]
		return !is || shard == key // what is no shard may say something of any
	})
	if n := allocated() - before; n > mostMemory+64*uint64(len(changed)) {
		t.Fatalf("object %s, %s: %d bytes of memory for %d", key, how, n, len(changed))
	}
	if errors.Is(err, format.ErrRule) {
		t.Fatalf("object %s, %s: %v", key, how, err)
	}
}

// allocated returns how many bytes this program has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
