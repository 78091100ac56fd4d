package format_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// told is a Sink that records the calls of a cursor as text.
type told struct {
	words []string
	gap   []byte
	data  []byte
}

func (s *told) flush() {
	if len(s.gap) > 0 {
		s.words = append(s.words, fmt.Sprintf("gap %x", s.gap))
	}
	s.gap = nil
}

func (s *told) Gap(p []byte) error {
	s.gap = append(s.gap, p...)
	return nil
}

func (s *told) Data(_ *format.Sample, p []byte) error {
	s.flush()
	s.data = append(s.data, p...)
	return nil
}

func (s *told) End(of *format.Sample) error {
	s.flush()
	word := fmt.Sprintf("%s %d %x", of.Key, of.Shared, s.data)
	for _, p := range of.Parts {
		b := s.data[p.Offset:][:p.Length]
		if crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) != p.CRC32C {
			return errors.New("another checksum")
		}
		word += fmt.Sprintf(" %s %x", p.Ext, b)
	}
	s.words, s.data = append(s.words, word), nil
	return nil
}

// TestCursor_PassesOnEveryByte checks that the cursor passes every byte to the sink once, and again
// only where samples share it. It draws any scanner and any division of the input.
func TestCursor_PassesOnEveryByte(t *testing.T) {
	const overlap = 3
	rapid.Check(t, func(r *rapid.T) {
		shard := rapid.SliceOfN(rapid.Byte(), 0, 20_000).Draw(r, "shard")
		in := io.Reader(bytes.NewReader(shard))
		switch rapid.IntRange(0, 2).Draw(r, "pieces") {
		case 1:
			in = iotest.OneByteReader(in)
		case 2:
			in = iotest.DataErrReader(in)
		}
		var got, want told
		c := format.NewCursor(t.Context(), format.Object{Key: "a", Size: int64(len(shard))}, in, &got)
		c.Keep(overlap)
		after := false // a sample has ended at the current offset
		for n := 0; int(c.Offset()) < len(shard); n++ {
			at, left := int(c.Offset()), len(shard)-int(c.Offset())
			ahead := rapid.IntRange(0, 2*left).Draw(r, "ahead")
			b, err := c.Peek(int64(ahead))
			if err != nil || !bytes.Equal(b, shard[at:at+min(ahead, left)]) {
				r.Fatalf("peek at %d: got %x, %v", at, b, err)
			}
			size := rapid.IntRange(1, left).Draw(r, "size")
			if !rapid.Bool().Draw(r, "sample") {
				want.gap = append(want.gap, shard[at:at+size]...)
				after = false
				if err := c.Gap(int64(size)); err != nil {
					r.Fatal(err)
				}
				continue
			}
			shared := 0
			if last := len(want.words); after && last > 0 {
				shared = rapid.IntRange(0, min(overlap, size)).Draw(r, "shared")
				if err := c.Back(shared); err != nil {
					shared = 0 // the preceding sample is shorter than shared
				}
			}
			key, part := fmt.Sprint("s", n), rapid.IntRange(0, size).Draw(r, "part")
			for _, err := range []error{c.Begin(key), c.Part("x", int64(shared+part)), c.Data(int64(size - part)), c.End()} {
				if err != nil {
					r.Fatal(err)
				}
			}
			text := shard[at-shared : at+size]
			want.flush()
			want.words = append(want.words, fmt.Sprintf("%s %d %x x %x", key, shared, text, text[:shared+part]))
			after = true
		}
		if end, err := c.Ended(); !end || err != nil {
			r.Fatalf("got an end: %v, %v", end, err)
		}
		got.flush()
		want.flush()
		if d := cmp.Diff(want.words, got.words); d != "" {
			r.Error(d)
		}
	})
}

func TestCursor_Lines(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	c := format.NewCursor(t.Context(), format.Object{}, strings.NewReader("a\n\n"+long+"\nb"), &told{})
	for _, want := range []string{"a\n", "\n", long + "\n", "b", ""} {
		line, err := c.Line(30_000)
		if err != nil || string(line) != want {
			t.Fatalf("got %d bytes, %v, want %d", len(line), err, len(want))
		}
		if err := c.Gap(int64(len(line))); err != nil {
			t.Fatal(err)
		}
	}
	c = format.NewCursor(t.Context(), format.Object{}, strings.NewReader(strings.Repeat(long, 1000)), &told{})
	if line, err := c.Line(100); err != nil || len(line) <= 100 || len(line) > 1<<20 {
		t.Errorf("a line that is too long: got %d bytes, %v", len(line), err)
	}
}

// TestCursor_Rules checks that a scanner that breaks the rules gets an error.
func TestCursor_Rules(t *testing.T) {
	type steps = func(c *format.Cursor) []error
	for name, do := range map[string]steps{
		"gap in a sample":          func(c *format.Cursor) []error { return []error{c.Begin("k"), c.Gap(1)} },
		"sample in a sample":       func(c *format.Cursor) []error { return []error{c.Begin("k"), c.Begin("l")} },
		"data outside a sample":    func(c *format.Cursor) []error { return []error{c.Data(1)} },
		"part outside a sample":    func(c *format.Cursor) []error { return []error{c.Part("x", 1)} },
		"end outside a sample":     func(c *format.Cursor) []error { return []error{c.End()} },
		"back before all samples":  func(c *format.Cursor) []error { return []error{c.Gap(2), c.Back(1)} },
		"back more than is kept":   func(c *format.Cursor) []error { return []error{c.Begin("k"), c.Data(4), c.End(), c.Back(3)} },
		"back beyond the sample":   func(c *format.Cursor) []error { return []error{c.Gap(2), c.Begin("k"), c.Data(1), c.End(), c.Back(2)} },
		"gap after going back":     func(c *format.Cursor) []error { return []error{c.Begin("k"), c.Data(3), c.End(), c.Back(1), c.Gap(1)} },
		"less than was promised":   func(c *format.Cursor) []error { c.Begin("k"); c.Ahead(3); return []error{c.Data(2), c.End()} },
		"fewer than nothing":       func(c *format.Cursor) []error { return []error{c.Gap(-1)} },
		"data of less than no one": func(c *format.Cursor) []error { return []error{c.Begin("k"), c.Data(-1)} },
	} {
		c := format.NewCursor(t.Context(), format.Object{}, strings.NewReader("abcdef"), &told{})
		c.Keep(2)
		if err := errors.Join(do(c)...); !errors.Is(err, format.ErrRule) {
			t.Errorf("%s: got %v, want %v", name, err, format.ErrRule)
		}
	}
}

// TestCursor_FalseLengths checks that a false length allocates no memory, and that the error for
// the unexpected end of the shard contains its offset.
func TestCursor_FalseLengths(t *testing.T) {
	c := format.NewCursor(t.Context(), format.Object{}, strings.NewReader("abc"), &told{})
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	if b, err := c.Peek(1 << 40); err != nil || string(b) != "abc" {
		t.Errorf("got %q, %v", b, err)
	}
	runtime.ReadMemStats(&is)
	if n := is.TotalAlloc - was.TotalAlloc; n > 1<<20 {
		t.Errorf("got %d bytes allocated", n)
	}
	if err := c.Begin("k"); err != nil {
		t.Fatal(err)
	}
	var where *format.Error
	if err := c.Data(1 << 40); !errors.As(err, &where) || where.Offset != 3 || where.Name != "k" {
		t.Errorf("got %v, want the end of the shard, at 3", err)
	}
	for what, in := range map[string]io.Reader{"a fault": iotest.ErrReader(errors.New("gone")), "no progress": stuck{}} {
		c := format.NewCursor(t.Context(), format.Object{}, in, &told{})
		if _, err := c.Peek(1); err == nil {
			t.Errorf("%s: got no error", what)
		}
		if err := c.Gap(1); errors.As(err, &where) || err == nil {
			t.Errorf("%s: got %v, want no fault of the shard", what, err)
		}
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestCursor_Limits checks the limits that apply to every sample.
func TestCursor_Limits(t *testing.T) {
	long := strings.Repeat("k", format.MaxKey)
	begun := func() *format.Cursor {
		c := format.NewCursor(t.Context(), format.Object{}, strings.NewReader(""), &told{})
		if err := c.Begin(long); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := format.NewCursor(t.Context(), format.Object{}, strings.NewReader(""), &told{})
	if err := c.Begin(long + "k"); err == nil {
		t.Error("a key that is too long: got no error")
	}
	if err := begun().Part(long+"k", 0); err == nil {
		t.Error("an extension that is too long: got no error")
	}
	c = begun()
	var err error
	n := 0
	for ; err == nil && n < 1<<20; n++ {
		err = c.Part(long, 0)
	}
	if want := format.MaxPartBytes / format.MaxKey; err == nil || n < want-10 || n > want+10 {
		t.Errorf("got %v after %d parts of long names, want about %d", err, n, want)
	}
}
