package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// MaxLine is the longest line: one is checked as a whole.
const MaxLine = 64 << 20

const bufferSize = 256 << 10

// mark is the byte order mark that some writers put before UTF-8.
const mark = "\xef\xbb\xbf"

// scanner reads one file.
type scanner struct {
	ctx  context.Context
	r    *bufio.Reader
	out  format.Sink
	stem string // of the samples' keys
	long []byte // a line longer than the buffer, as far as it was read
	off  int64  // of the current line
	line uint64 // its number, counted from 1
	n    uint64 // samples found
}

func scan(ctx context.Context, stem string, in io.Reader, out format.Sink) error {
	s := &scanner{ctx: ctx, r: bufio.NewReaderSize(in, bufferSize), out: out, stem: stem}
	for {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.line++
		line, err := s.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.line == 1 && bytes.HasPrefix(line, []byte(mark)) {
			if err := s.out.Gap(line[:len(mark)]); err != nil {
				return err
			}
			line = line[len(mark):]
			s.off += int64(len(mark))
		}
		if len(line) > 0 {
			if err := s.take(line); err != nil {
				return err
			}
		}
		s.off += int64(len(line))
	}
}

func (s *scanner) fail(at int64, reason string, args ...any) error {
	return &format.Error{Offset: s.off + at, Reason: fmt.Sprintf("line %d: ", s.line) + fmt.Sprintf(reason, args...)}
}

// read returns the next line with its line feed, which the last one may lack, until the next call. io.EOF means that there is none.
func (s *scanner) read() ([]byte, error) {
	s.long = s.long[:0]
	for {
		piece, err := s.r.ReadSlice('\n')
		if err == nil && len(s.long) == 0 {
			return piece, nil
		}
		if len(s.long)+len(piece) > MaxLine {
			return nil, s.fail(0, "longer than %d bytes", MaxLine)
		}
		s.long = append(s.long, piece...)
		switch {
		case err == nil:
			return s.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(s.long) > 0:
			return s.long, nil
		default:
			return nil, err
		}
	}
}

// take tells what a line is: a sample, or nothing but space between samples.
func (s *scanner) take(line []byte) error {
	end, ended := len(line), line[len(line)-1] == '\n'
	if ended {
		end--
	}
	if end > 0 && line[end-1] == '\r' {
		end--
	}
	text := line[:end]
	if len(bytes.Trim(text, " \t")) == 0 {
		return s.out.Gap(line)
	}
	if err := s.check(text, ended); err != nil {
		return err
	}
	if err := s.out.Begin(format.Numbered(s.stem, s.n)); err != nil {
		return err
	}
	s.n++
	if err := s.out.Ahead(int64(len(line))); err != nil {
		return err
	}
	if err := s.out.BeginPart(Part); err != nil {
		return err
	}
	if err := s.out.Data(text); err != nil {
		return err
	}
	if err := s.out.EndPart(); err != nil {
		return err
	}
	if err := s.out.Data(line[end:]); err != nil {
		return err
	}
	if !ended { // so that it can stand before others
		if err := s.out.LineFeed(); err != nil {
			return err
		}
	}
	return s.out.End()
}

// check refuses a line that is not one JSON value to every reader. One that is not ended may have been cut; all values show that but a
// number.
func (s *scanner) check(text []byte, ended bool) error {
	if value := bytes.TrimLeft(text, " \t"); !ended && bytes.IndexByte([]byte("-0123456789"), value[0]) >= 0 {
		return s.fail(0, "the last line is a number without a line feed: it may have been cut")
	}
	if at := bytes.IndexByte(text, '\r'); at >= 0 {
		return s.fail(int64(at), "a carriage return in the middle, where some readers end a line")
	}
	if !utf8.Valid(text) {
		return s.fail(int64(invalid(text)), "not UTF-8")
	}
	if json.Valid(text) {
		return nil
	}
	var syntax *json.SyntaxError
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	at := int64(0)
	if errors.As(err, &syntax) {
		at = max(0, syntax.Offset-1)
	}
	return s.fail(at, "not JSON: %v", err)
}

// invalid returns where the first byte is that belongs to no character.
func invalid(text []byte) int {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}
