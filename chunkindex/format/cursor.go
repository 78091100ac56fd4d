package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	bufferSize  = 256 << 10
	leastBuffer = HeadSize // small, because there may be hundreds of thousands of tiny shards
	emptyReads  = 100      // consecutive empty reads before a reader counts as broken
)

// ErrRule reports a scanner that calls its Cursor or Sink out of order. This is a bug in the
// scanner, not a fault of the shard.
var ErrRule = errors.New("bug in the scanner of a format")

// Cursor reads the decoded bytes of one shard sequentially, and passes each byte to a Sink: as a
// gap or as data of a sample. It implements the common parts of all scanners: buffering, unexpected
// ends, the context, offsets, parts and their checksums.
//
// A scanner passes a sample with Begin, any number of Data and Part calls, then End. It passes the
// bytes between samples with Gap. Scanners use Peek to inspect bytes in advance.
type Cursor struct {
	ctx    context.Context
	in     io.Reader
	out    Sink
	table  *crc32.Table
	buf    []byte // bytes before next were passed to the sink, bytes from next to end were not
	next   int
	end    int
	kept   int   // number of passed bytes that stay in the buffer for Back
	back   int64 // maximum for Back: the length of the preceding sample
	fault  error // error returned by the reader
	offset int64 // offset of the next byte

	open     bool // a sample has begun
	sample   Sample
	start    int64 // offset of the sample's first byte
	promised int64 // minimum end offset of the sample
	written  int   // bytes that an index needs for the sample's parts
}

// NewCursor returns a cursor at the start of a shard whose decoded bytes come from in.
func NewCursor(ctx context.Context, shard Object, in io.Reader, out Sink) *Cursor {
	size := int64(bufferSize)
	if shard.Key == Plain(shard.Key) { // the decoded bytes of a compressed shard exceed its size
		size = max(leastBuffer, min(size, shard.Size))
	}
	return &Cursor{ctx: ctx, in: in, out: out, table: crc32.MakeTable(crc32.Castagnoli), buf: make([]byte, size)}
}

// Offset returns the offset of the next byte in the shard's decoded bytes.
func (c *Cursor) Offset() int64 { return c.offset }

// Fail returns an error located at the next byte.
func (c *Cursor) Fail(reason string, args ...any) error {
	return &Error{Offset: c.offset, Name: c.sample.Key, Reason: fmt.Sprintf(reason, args...)}
}

// Peek returns the next n bytes without consuming them, or fewer at the end of the shard. They are
// valid until the next method call. The buffer grows only as data arrives, so that a false length
// allocates no memory.
func (c *Cursor) Peek(n int64) ([]byte, error) {
	for int64(c.end-c.next) < n {
		if err := c.fill(n); err == io.EOF { //nolint:errorlint // io.EOF must be unwrapped; a wrapped one is an error
			n = int64(c.end - c.next)
		} else if err != nil {
			return nil, err
		}
	}
	return c.buf[c.next : c.next+int(n)], nil
}

// Ended reports whether the shard has no more bytes.
func (c *Cursor) Ended() (bool, error) {
	b, err := c.Peek(1)
	return err == nil && len(b) == 0, err
}

// Line returns the bytes up to and including the next line feed, without consuming them. The last
// line of a shard may lack the line feed; after that line, Line returns no bytes. For a line longer
// than most, Line returns more than most bytes.
func (c *Cursor) Line(most int) ([]byte, error) {
	for seen := 0; ; {
		held := c.buf[c.next:c.end]
		if i := bytes.IndexByte(held[seen:], '\n'); i >= 0 {
			return held[:seen+i+1], nil
		}
		if seen = len(held); seen > most {
			return held, nil
		}
		more, err := c.Peek(int64(seen) + 1)
		if err != nil || len(more) == seen {
			return more, err
		}
	}
}

// fill reads more bytes into the buffer, and grows the buffer until n bytes fit. It returns the
// reader's error.
func (c *Cursor) fill(n int64) error {
	if c.fault != nil {
		return c.fault
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	base := max(0, c.next-c.kept)
	switch room := int64(len(c.buf) - c.next); {
	case base > 0 && (c.next == c.end || room < n):
		copy(c.buf, c.buf[base:c.end])
		c.next, c.end = c.next-base, c.end-base
	case base == 0 && c.end == len(c.buf):
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	for range emptyReads {
		got, err := c.in.Read(c.buf[c.end:])
		c.end += got
		c.fault = err
		if got > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	c.fault = io.ErrNoProgress
	return c.fault
}

// each passes the next n bytes to take in pieces no larger than the buffer.
func (c *Cursor) each(n int64, take func(p []byte) error) error {
	for n > 0 {
		if c.next == c.end {
			if err := c.fill(1); err == io.EOF { //nolint:errorlint // io.EOF must be unwrapped; a wrapped one is an error
				return c.Fail("shard is truncated: %d bytes are missing", n)
			} else if err != nil {
				return err
			}
		}
		p := c.buf[c.next:c.end]
		p = p[:min(n, int64(len(p)))]
		c.next += len(p)
		c.offset += int64(len(p))
		n -= int64(len(p))
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// Gap passes the next n bytes to the sink as bytes between samples.
func (c *Cursor) Gap(n int64) error {
	if c.open || n < 0 || c.sample.Shared > 0 {
		return c.breaks("gap of %d bytes inside a sample", n)
	}
	c.back = 0
	return c.each(n, c.out.Gap)
}

// Keep makes the cursor retain the last n bytes of each sample for Back.
func (c *Cursor) Keep(n int) { c.kept = n }

// Back makes the last n bytes of the preceding sample the first bytes of the next sample, which
// must begin immediately. Dataset.Overlap limits n.
func (c *Cursor) Back(n int) error {
	if c.open || n < 0 || n > min(c.next, c.kept) || int64(n) > c.back {
		return c.breaks("cannot go back by %d bytes", n)
	}
	c.next -= n
	c.offset -= int64(n)
	c.sample.Shared, c.back = n, 0
	return nil
}

// Begin starts a sample at the next byte.
func (c *Cursor) Begin(key string) error {
	if c.open {
		return c.breaks("sample %.100q begins inside another", key)
	}
	c.open, c.start, c.promised, c.written = true, c.offset, c.offset, 0
	c.sample = Sample{Key: key, Shared: c.sample.Shared, Parts: c.sample.Parts[:0]}
	if len(key) > MaxKey {
		return c.Fail("key is too long")
	}
	return nil
}

// Ahead declares that at least n more bytes of this sample follow. A sample that is too long thus
// fails early.
func (c *Cursor) Ahead(n int64) { c.promised = max(c.promised, c.offset+n) }

// Data passes the next n bytes to the sink as data of the sample.
func (c *Cursor) Data(n int64) error {
	return c.data(n, func([]byte) {})
}

// Part passes the next n bytes to the sink as data of the sample, and makes them the sample's part
// with this extension. The cursor retains ext until the sample ends: clone it if it is part of a
// longer string.
func (c *Cursor) Part(ext string, n int64) error {
	if len(ext) > MaxKey {
		return c.Fail("a part's extension is too long")
	}
	if len(c.sample.Parts) >= MaxParts || c.written >= MaxPartBytes {
		return c.Fail("sample has too many parts")
	}
	part := Part{Ext: ext, Offset: c.offset - c.start, Length: n}
	err := c.data(n, func(p []byte) { part.CRC32C = crc32.Update(part.CRC32C, c.table, p) })
	c.sample.Parts = append(c.sample.Parts, part)
	c.written += part.written()
	return err
}

func (c *Cursor) data(n int64, see func(p []byte)) error {
	if !c.open || n < 0 {
		return c.breaks("%d bytes of data outside a sample", n)
	}
	c.Ahead(n)
	return c.each(n, func(p []byte) error {
		see(p)
		c.sample.Ahead = c.promised - c.offset
		return c.out.Data(&c.sample, p)
	})
}

// Whole passes the next n bytes to the sink as a sample with one part, which has the first of these
// bytes. lineFeed adds a missing line feed to the sample, which must be the last one of the shard.
func (c *Cursor) Whole(key, ext string, part, n int64, lineFeed bool) error {
	if err := c.Begin(key); err != nil {
		return err
	}
	c.Ahead(n)
	if err := c.Part(ext, part); err != nil {
		return err
	}
	if err := c.Data(n - part); err != nil {
		return err
	}
	c.sample.LineFeed = lineFeed
	return c.End()
}

// End ends the sample.
func (c *Cursor) End() error {
	if !c.open || c.promised > c.offset {
		return c.breaks("sample ends %d bytes before the announced end", c.promised-c.offset)
	}
	err := c.out.End(&c.sample)
	c.open, c.back, c.sample.Key, c.sample.Shared = false, c.offset-c.start, "", 0
	return err
}

func (c *Cursor) breaks(how string, args ...any) error {
	return fmt.Errorf("%w at offset %d: %s", ErrRule, c.offset, fmt.Sprintf(how, args...))
}

// LastPart returns the most recent part.
func (c *Cursor) LastPart() Part { return c.sample.Parts[len(c.sample.Parts)-1] }

// written returns the number of bytes that an index needs for a part.
func (p Part) written() int {
	var b [binary.MaxVarintLen64]byte
	n := 4 + len(p.Ext)
	for _, v := range []int64{int64(len(p.Ext)), p.Offset, p.Length} {
		n += binary.PutUvarint(b[:], uint64(v))
	}
	return n
}
