package tfrecord

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	headSize   = 12 // length and its checksum
	footSize   = 4  // checksum of the data
	bufferSize = 256 << 10
)

// scanner reads one TFRecord file.
type scanner struct {
	ctx   context.Context
	r     *bufio.Reader
	out   format.Sink
	table *crc32.Table
	buf   []byte
	off   int64  // of the next byte
	n     uint64 // records read
}

func scan(ctx context.Context, stem string, in io.Reader, out format.Sink) error {
	s := &scanner{ctx: ctx, r: bufio.NewReaderSize(in, bufferSize), out: out, table: castagnoli(), buf: make([]byte, bufferSize)}
	for {
		head, err := s.r.Peek(headSize)
		switch {
		case errors.Is(err, io.EOF) && len(head) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return s.fail("record %d is cut: %d bytes of a length", s.n, len(head))
		case err != nil:
			return err
		}
		if err := s.record(format.Numbered(stem, s.n), head); err != nil {
			return err
		}
		s.n++
	}
}

func (s *scanner) fail(reason string, args ...any) error {
	return &format.Error{Offset: s.off, Reason: fmt.Sprintf(reason, args...)}
}

func (s *scanner) record(key string, head []byte) error {
	n, err := length(head)
	if err != nil {
		return s.fail("record %d: %v", s.n, err)
	}
	if n > format.MaxSample-headSize-footSize {
		return s.fail("record %d: %d bytes are more than a sample can have, %d", s.n, n, format.MaxSample)
	}
	if err := s.out.Begin(key); err != nil {
		return err
	}
	if err := s.out.Ahead(headSize + int64(n) + footSize); err != nil {
		return err
	}
	if _, err := s.copy(headSize); err != nil {
		return err
	}
	if err := s.out.BeginPart(Part); err != nil {
		return err
	}
	crc, err := s.copy(int64(n))
	if err != nil {
		return err
	}
	if err := s.out.EndPart(); err != nil {
		return err
	}
	foot, err := s.r.Peek(footSize)
	if err == nil && binary.LittleEndian.Uint32(foot) != masked(crc) {
		return s.fail("record %d: checksum of the data is wrong", s.n)
	}
	if _, err := s.copy(footSize); err != nil {
		return err
	}
	return s.out.End()
}

// copy hands on the next n bytes, and returns their checksum.
func (s *scanner) copy(n int64) (crc uint32, err error) {
	for n > 0 {
		if err := s.ctx.Err(); err != nil {
			return 0, err
		}
		b := s.buf[:min(n, int64(len(s.buf)))]
		got, err := io.ReadFull(s.r, b)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, s.fail("record %d is cut: %d bytes are missing", s.n, n-int64(got))
		}
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, s.table, b)
		if err := s.out.Data(b); err != nil {
			return 0, err
		}
		s.off += int64(got)
		n -= int64(got)
	}
	return crc, nil
}
