package codec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// unpacker decodes an object in pieces. A piece is a frame, or the data between two frames, such as
// an index.
type unpacker interface {
	// begin starts the piece at the object's next byte. head holds its first four bytes, or fewer
	// at the end of the object. params are the decoding parameters of a frame. begin returns io.EOF
	// at the end of a complete object.
	begin(head []byte) (params string, err error)
	// Read decodes the piece. It returns io.EOF at the end of the piece.
	io.Reader
	// close releases the decoder's memory.
	close()
}

var (
	errNoFrame    = errors.New("no piece can begin with the next bytes")
	errAfterZeros = errors.New("they follow zeros")
)

func isGzip(head []byte) bool {
	return len(head) >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8
}

// isZstd also accepts a skippable frame. Such a frame contains no data; an example is the table of
// the seekable format.
func isZstd(head []byte) bool {
	return len(head) >= 4 && !errors.Is(new(zstd.Header).Decode(head), zstd.ErrMagicMismatch)
}

// gzipMembers decodes the members of a gzip object.
type gzipMembers struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func (g *gzipMembers) begin(head []byte) (params string, err error) {
	switch {
	case len(head) == 0:
		return "", io.EOF
	case zeros(head):
		return "", g.padding()
	case !isGzip(head):
		return "", errNoFrame
	case g.z == nil:
		g.z, err = gzip.NewReader(g.in)
	default:
		err = g.z.Reset(g.in)
	}
	if err == nil {
		g.z.Multistream(false)
	}
	return "", err
}

func (g *gzipMembers) Read(p []byte) (int, error) { return g.z.Read(p) }

func (g *gzipMembers) close() {}

// padding reads zeros up to the end of the object. Tapes have such padding, and the gzip program
// ignores it after the last member.
func (g *gzipMembers) padding() error {
	for {
		b, err := g.in.Peek(1)
		if err != nil {
			return err // io.EOF means that the object ends properly
		}
		if b[0] != 0 {
			return errAfterZeros
		}
		b, _ = g.in.Peek(g.in.Buffered()) // the buffer contains all of it
		n := len(b) - len(bytes.TrimLeft(b, "\x00"))
		if _, err := g.in.Discard(n); err != nil {
			return err
		}
	}
}

func zeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// zstdFrames decodes the frames of a zstd object.
type zstdFrames struct {
	in  *bufio.Reader
	row frames
	z   *zstd.Decoder
}

func (s *zstdFrames) begin(head []byte) (params string, err error) {
	switch {
	case len(head) == 0:
		return "", io.EOF
	case !isZstd(head):
		return "", errNoFrame
	}
	s.row = frames{in: s.in}
	if s.z == nil {
		s.z, err = newZstd(&s.row)
	} else {
		err = s.z.Reset(&s.row)
	}
	return "", err
}

func (s *zstdFrames) Read(p []byte) (int, error) {
	n, err := s.z.Read(p)
	switch {
	case errors.Is(err, io.EOF) && !s.row.ended():
		err = io.ErrUnexpectedEOF
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded): // ErrDecoderSizeExceeded: for a single-segment frame
		err = fmt.Errorf("its window is larger than %d bytes: recompress the object without --long and --ultra: %w", MaxWindow, err)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		err = fmt.Errorf("it needs a dictionary: recompress the object without one: %w", err)
	}
	return n, err
}

func (s *zstdFrames) close() {
	if s.z != nil {
		s.z.Close()
	}
}

// newZstd returns a decoder that starts no goroutines and buffers only one window.
func newZstd(in io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
}
