package codec

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

var errReserved = errors.New("a block of the reserved type")

// frames reads exactly one zstd frame, skippable or not, from a sequence of frames. It is needed
// because the decoder does not report where a frame ends. It only parses the lengths of the header
// and blocks.
type frames struct {
	in    *bufio.Reader
	left  int64 // unread bytes of the current header or block
	state int
	sum   bool // a checksum follows the last block
}

const (
	atHeader = iota
	atBlock
	atSum
	atEnd
)

// ended reports whether the whole frame was read.
func (f *frames) ended() bool { return f.state == atEnd && f.left == 0 }

func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 {
		if f.state == atEnd {
			return 0, io.EOF
		}
		if err := f.measure(); err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if n > 0 || err == nil {
		return n, nil
	}
	return 0, whole(err)
}

// measure determines the length of the next header, block or checksum.
func (f *frames) measure() error {
	switch f.state {
	case atHeader:
		return f.header()
	case atBlock:
		b, err := f.in.Peek(3)
		if err != nil {
			return whole(err)
		}
		h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		f.left = 3 + int64(h>>3)
		switch h >> 1 & 3 {
		case 1: // one byte, which is repeated
			f.left = 3 + 1
		case 3:
			return errReserved
		}
		if h&1 == 1 {
			f.state = atEnd
			if f.sum {
				f.state = atSum
			}
		}
	case atSum:
		f.left, f.state = 4, atEnd
	}
	return nil
}

func (f *frames) header() error {
	b, err := f.in.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return err
	}
	f.left, f.state, f.sum = int64(h.HeaderSize)+int64(h.SkippableSize), atBlock, h.HasCheckSum
	if h.Skippable {
		f.state = atEnd
	}
	return nil
}

// whole converts io.EOF inside a frame to io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
