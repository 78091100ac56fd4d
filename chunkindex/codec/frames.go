package codec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

var (
	errReserved = errors.New("a block of the reserved type")
	errHeader   = errors.New("a header with a reserved bit")
)

func frameMagic(b []byte) bool { return binary.LittleEndian.Uint32(b) == 0xfd2fb528 }

// skippable reports whether b begins a skippable frame. Such a frame contains no data; an example
// is the table of the seekable format.
func skippable(b []byte) bool { return binary.LittleEndian.Uint32(b)&^0xf == 0x184d2a50 }

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
	b, err := f.in.Peek(5)
	if err != nil {
		return whole(err)
	}
	if skippable(b) {
		if b, err = f.in.Peek(8); err != nil {
			return whole(err)
		}
		f.left, f.state = 8+int64(binary.LittleEndian.Uint32(b[4:])), atEnd
		return nil
	}
	d := b[4]
	if d&8 != 0 {
		return errHeader
	}
	single := d&0x20 != 0
	f.sum = d&4 != 0
	f.left = 5 + []int64{0, 1, 2, 4}[d&3] + []int64{0, 2, 4, 8}[d>>6]
	switch {
	case !single:
		f.left++ // window descriptor
	case d>>6 == 0:
		f.left++ // the content size is one byte long
	}
	f.state = atBlock
	return nil
}

// whole converts io.EOF inside a frame to io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
