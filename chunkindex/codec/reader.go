package codec

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Frame is a gzip member, a zstd frame or an xz block that contains at least one byte.
type Frame struct {
	Stored, StoredEnd   int64 // offsets in the object; StoredEnd is 0 until the whole frame was read
	Decoded, DecodedEnd int64 // offsets in the decoded bytes; DecodedEnd is the end of the bytes read so far

	params string
}

// Reader decodes an object sequentially and records its frames.
type Reader struct {
	codec    Codec
	src      *source
	maxFrame int64

	frames unpacker

	open   bool  // a frame is being read
	begins int64 // stored offset of the open frame
	params string
	off    int64 // number of bytes decoded so far
	first  int64 // decoded offset of the open frame
	err    error

	FrameList
}

// source counts the bytes consumed from a buffered object.
type source struct {
	in  io.Reader
	buf *bufio.Reader
	n   int64 // number of bytes read into the buffer
}

const bufferSize = 256 << 10

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.n += int64(n)
	return n, err
}

// at returns the stored offset of the next unconsumed byte.
func (s *source) at() int64 { return s.n - int64(s.buf.Buffered()) }

// NewReader returns a reader of frames, after checking the magic number of c. If in is an io.Seeker,
// its position is the stored offset of the first frame. NewReader returns an error if c is None.
func NewReader(c Codec, in io.Reader) (*Reader, error) {
	r := newReader(c, in)
	if s, ok := in.(io.Seeker); ok {
		r.src.n, _ = s.Seek(0, io.SeekCurrent)
	}
	head, err := r.src.buf.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m := c.method()
	if m.begins == nil {
		return nil, fmt.Errorf("%v is not a stream of frames", c)
	}
	if !m.begins(head) {
		return nil, fmt.Errorf("its name indicates %v, but it begins with % x, which is not %v", c, head, c)
	}
	r.frames = m.frames(r.src.buf)
	return r, nil
}

func newReader(c Codec, in io.Reader) *Reader {
	r := &Reader{codec: c, src: &source{in: in}, maxFrame: MaxFrame}
	r.src.buf = bufio.NewReaderSize(r.src, bufferSize)
	return r
}

// Read returns decoded bytes, never from two frames at once. It returns io.EOF at the end of the
// object.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.err == nil {
		if !r.open {
			if r.err = r.next(); r.err != nil {
				break
			}
		}
		n, err := r.frames.Read(p)
		if n > 0 {
			r.grow(n)
		}
		if r.off-r.first > r.maxFrame {
			r.err = r.fail(fmt.Errorf("it decodes to more than %d bytes: %s", r.maxFrame, r.codec.Smaller()))
			return 0, r.err
		}
		switch {
		case errors.Is(err, io.EOF):
			r.finish()
		case err != nil:
			r.err = r.fail(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// Close releases the decoder. It returns nil.
func (r *Reader) Close() error {
	r.frames.close()
	return nil
}

// Params returns the parameters that Decode needs for a chunk that begins at a decoded offset. They
// are the parameters of the frame at this offset, which must be known. Later frames do not need
// parameters.
func (r *Reader) Params(first, _ int64) (params []byte, pieces []rows.Range) {
	f, _ := r.At(first)
	return []byte(f.params), nil
}

// next starts the next frame. It returns io.EOF if the object ends properly there.
func (r *Reader) next() error {
	r.begins, r.first = r.src.at(), r.off
	head, err := r.src.buf.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.params, err = r.frames.begin(head)
	switch {
	case err == nil:
		r.open = true
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errNoFrame):
		return fmt.Errorf("bytes at stored offset %d are not %v: % x", r.begins, r.codec, head)
	case errors.Is(err, errAfterZeros):
		return fmt.Errorf("bytes at stored offset %d are not %v: %w", r.src.at(), r.codec, err)
	}
	return r.fail(err)
}

// grow adds decoded bytes to the open frame.
func (r *Reader) grow(n int) {
	if r.off == r.first {
		r.Add(Frame{Stored: r.begins, Decoded: r.first, params: r.params})
	}
	r.off += int64(n)
	r.Last().DecodedEnd = r.off
}

// finish ends the open frame.
func (r *Reader) finish() {
	if r.off > r.first {
		r.Last().StoredEnd = r.src.at()
	}
	r.open = false
}

// fail adds the codec and the offset of the current frame to an error.
func (r *Reader) fail(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("it is truncated: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%v frame at stored offset %d: %w", r.codec, r.begins, err)
}
