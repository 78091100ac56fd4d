package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const bufferSize = 256 << 10

// scanner reads one shard.
type scanner struct {
	ctx  context.Context
	r    *bufio.Reader
	out  format.Sink
	buf  []byte
	off  int64  // of the next byte
	stem string // of the samples' keys
	n    uint64 // records read
}

func newScanner(ctx context.Context, key string, in io.Reader, out format.Sink) *scanner {
	return &scanner{
		ctx: ctx, r: bufio.NewReaderSize(in, bufferSize), out: out, buf: make([]byte, bufferSize),
		stem: format.Stem(key, ".bin", ".raw", ".dat", ".npy"),
	}
}

func (s *scanner) fail(reason string, args ...any) error {
	return &format.Error{Offset: s.off, Reason: fmt.Sprintf(reason, args...)}
}

// ended reports whether the shard has no more bytes.
func (s *scanner) ended() (bool, error) {
	_, err := s.r.Peek(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// all reads records to the shard's end.
func (s *scanner) all(size int64) error {
	for {
		end, err := s.ended()
		if end || err != nil {
			return err
		}
		if err := s.record(size); err != nil {
			return err
		}
	}
}

// array reads an .npy file of the layout that the first of them has.
func (s *scanner) array(first string, want Layout) error {
	head, err := s.r.Peek(format.HeadSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a, err := ReadHeader(head)
	if err != nil {
		return s.fail("%v", err)
	}
	have, err := a.Layout()
	if err != nil {
		return s.fail("%v", err)
	}
	if !have.Equal(want) {
		return s.fail("samples are of %v, those of %s of %v: shards of one dataset have one type and shape", have, first, want)
	}
	if err := s.out.Gap(head[:a.Start]); err != nil {
		return err
	}
	if _, err := s.r.Discard(int(a.Start)); err != nil {
		return err
	}
	s.off = a.Start
	for s.n < a.Shape[0] {
		if err := s.record(want.Size()); err != nil {
			return err
		}
	}
	if end, err := s.ended(); end || err != nil {
		return err
	}
	return s.fail("more bytes follow the %d samples that the header says there are", a.Shape[0])
}

// record reads a record that is all array.
func (s *scanner) record(size int64) error {
	if err := s.begin(size); err != nil {
		return err
	}
	if err := s.part(Part, size); err != nil {
		return err
	}
	return s.end()
}

func (s *scanner) begin(size int64) error {
	if err := s.out.Begin(format.Numbered(s.stem, s.n)); err != nil {
		return err
	}
	return s.out.Ahead(size)
}

func (s *scanner) end() error {
	s.n++
	return s.out.End()
}

// part hands on the next n bytes as a part.
func (s *scanner) part(ext string, n int64) error {
	if err := s.out.BeginPart(ext); err != nil {
		return err
	}
	for n > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		b := s.buf[:min(n, int64(len(s.buf)))]
		got, err := io.ReadFull(s.r, b)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return s.fail("record %d is cut: %d bytes are missing", s.n, n-int64(got))
		}
		if err != nil {
			return err
		}
		if err := s.out.Data(b); err != nil {
			return err
		}
		s.off += int64(got)
		n -= int64(got)
	}
	return s.out.EndPart()
}
