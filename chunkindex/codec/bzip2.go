package codec

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"io"
)

// A bzip2 stream begins with "BZh" and a digit, and then with the magic of its first block, or of its end where the stream is
// empty. Streams begin at whole bytes, so ten bytes tell where pbzip2's next stream begins.
const (
	bzip2Head  = 4 + 6
	bzip2Block = "1AY&SY"
	bzip2End   = "\x17rE8P\x90"
	bzip2Empty = bzip2Head + 4 // bytes of a stream without data: the end's magic and a checksum of zeros
)

// bzip2Memory is what a decoder takes: four bytes for each of the 900,000 of the largest block, and tables.
const bzip2Memory = 4 << 20

// bzip2Streams decodes the streams of a bzip2 object. It is also the io.ByteReader of the library's decoder, which then never reads
// beyond a stream's last byte; it ends where the next stream begins.
type bzip2Streams struct {
	in    *bufio.Reader
	z     io.Reader // nil: the stream holds no data
	taken int64     // bytes of the stream
}

func (s *bzip2Streams) begin(head []byte) (params string, err error) {
	switch {
	case len(head) == 0:
		return "", io.EOF
	case !Bzip2.begins(head):
		return "", errNoFrame
	}
	s.taken = 0
	b, err := s.in.Peek(bzip2Empty)
	if err == nil && string(b[4:bzip2Head]) == bzip2End && zeros(b[bzip2Head:]) {
		s.z = nil
		_, err = s.in.Discard(bzip2Empty)
		return "", err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	s.z = bzip2.NewReader(limitedBytes{s})
	return "", nil
}

func (s *bzip2Streams) Read(p []byte) (int, error) {
	if s.z == nil {
		return 0, io.EOF
	}
	return s.z.Read(p)
}

func (s *bzip2Streams) close() {}

// limitedBytes are the bytes of one stream.
type limitedBytes struct{ of *bzip2Streams }

// Read is never called, since ReadByte is there.
func (l limitedBytes) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (l limitedBytes) ReadByte() (byte, error) {
	s := l.of
	next, err := s.in.Peek(1)
	if err != nil {
		return 0, err
	}
	if next[0] == 'B' && s.taken > 0 {
		if next, _ = s.in.Peek(bzip2Head); beginsStream(next) { // fewer bytes begin none
			return 0, io.EOF
		}
	}
	s.taken++
	return s.in.ReadByte()
}

// beginsStream says whether bytes are the first ten of a stream.
func beginsStream(b []byte) bool {
	return len(b) == bzip2Head && Bzip2.begins(b) && (bytes.HasSuffix(b, []byte(bzip2Block)) || bytes.HasSuffix(b, []byte(bzip2End)))
}
