package tokens

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/records"
)

const bufferSize = 256 << 10

// scanner cuts the tokens of one shard into windows.
type scanner struct {
	ctx    context.Context
	r      *bufio.Reader
	out    format.Sink
	shard  file
	stem   string // of the samples' keys
	window int64  // bytes of a sample
	token  int64  // bytes of a token
	held   bytes.Buffer
	off    int64  // of the byte after those held
	last   []byte // token of the window before
	left   int64  // bytes of tokens that are still to come, if the shard says how many it has
	n      uint64 // samples found
}

func newScanner(ctx context.Context, f file, window int64, in io.Reader, out format.Sink) *scanner {
	s := &scanner{
		ctx: ctx, r: bufio.NewReaderSize(in, bufferSize), out: out, shard: f, window: window, token: int64(f.dtype.Size()),
		stem: format.Stem(f.Key, ".bin", ".npy", ".tokens"), left: math.MaxInt64,
	}
	if f.count >= 0 {
		s.left = f.count * s.token
	}
	return s
}

func (s *scanner) fail(reason string, args ...any) error {
	return &format.Error{Offset: s.off, Reason: fmt.Sprintf(reason, args...)}
}

func (s *scanner) run() error {
	if whole, err := s.read(s.shard.start); err != nil {
		return err
	} else if !whole {
		return s.fail("header is cut")
	}
	if err := s.gap(); err != nil {
		return err
	}
	for {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		want := s.window
		if s.n > 0 {
			want -= s.token // the first token is the last one of the window before
		}
		whole, err := s.read(min(want, s.left))
		if err != nil {
			return err
		}
		s.left -= int64(s.held.Len())
		if !whole || int64(s.held.Len()) < want {
			return s.rest()
		}
		if err := s.sample(); err != nil {
			return err
		}
	}
}

// read holds the next n bytes, and reports whether there are so many. It takes memory as bytes come.
func (s *scanner) read(n int64) (whole bool, err error) {
	got, err := io.CopyN(&s.held, s.r, n)
	s.off += got
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return err == nil, nil
}

// gap hands on what is held as bytes of no sample.
func (s *scanner) gap() error {
	if err := s.out.Gap(s.held.Bytes()); err != nil {
		return err
	}
	s.held.Reset()
	return nil
}

// sample hands on a window: the token that it shares with the one before, and what is held.
func (s *scanner) sample() error {
	if err := s.out.Begin(format.Numbered(s.stem, s.n)); err != nil {
		return err
	}
	if err := s.out.BeginPart(records.Part); err != nil {
		return err
	}
	if s.n > 0 {
		if err := s.out.Again(s.last); err != nil {
			return err
		}
	}
	b := s.held.Bytes()
	if err := s.out.Data(b); err != nil {
		return err
	}
	if err := s.out.EndPart(); err != nil {
		return err
	}
	s.last = append(s.last[:0], b[len(b)-int(s.token):]...)
	s.held.Reset()
	s.n++
	return s.out.End()
}

// rest leaves out the tokens that fill no window, after which the shard must end.
func (s *scanner) rest() error {
	if n := int64(s.held.Len()) % s.token; n != 0 {
		return s.fail("%d bytes at the end are no token of %s", n, s.shard.dtype)
	}
	if s.shard.count >= 0 && s.left > 0 {
		return s.fail("%d of the %d tokens are missing", s.left/s.token, s.shard.count)
	}
	if err := s.gap(); err != nil {
		return err
	}
	_, err := s.r.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return s.fail("more bytes follow the %d tokens that there are", s.shard.count)
}
