// Package jsonvalue decodes JSON values that are not one per line: the elements of an array, or
// values one after another, with white space anywhere. Decoded, each value is a line of JSON Lines:
// its text without insignificant white space, and a line feed.
package jsonvalue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxValue is the maximum stored length of a value, which is in memory as a whole.
const MaxValue = 64 << 20

// delimiters end a number or a word.
const delimiters = " \t\r\n,:{}[]\""

// Reader reads values. Commas between them are optional, so that a part of an array is readable.
type Reader struct {
	in     *bufio.Reader
	offset int64

	Begin, End int64 // stored range of the last value
	Commas     int   // number of commas before it
	text       []byte
}

// NewReader returns a reader of values that begin at an offset.
func NewReader(in io.Reader, offset int64) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 1<<20), offset: offset}
}

// Next appends the next value as a line to dst. It returns io.EOF at the end of the input, and an
// *Unexpected if a byte cannot begin a value.
func (r *Reader) Next(dst []byte) ([]byte, error) {
	r.Commas = 0
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return dst, err
		}
		r.offset++
		switch c {
		case ' ', '\t', '\n', '\r':
		case ',':
			r.Commas++
		case ']', '}', ':':
			return dst, &Unexpected{Offset: r.offset - 1, Byte: c}
		default:
			_ = r.in.UnreadByte() // succeeds after ReadByte
			r.offset--
			return r.value(dst)
		}
	}
}

// value reads a value, and appends it as a line.
func (r *Reader) value(dst []byte) ([]byte, error) {
	r.Begin, r.text = r.offset, r.text[:0]
	var s splitter
	for ended := false; !ended; {
		if _, err := r.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && s.scalar {
				break
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return dst, fmt.Errorf("value at offset %d: %w", r.Begin, err)
		}
		b, _ := r.in.Peek(r.in.Buffered())
		n := 0
		n, ended = s.split(b)
		if len(r.text)+n > MaxValue {
			return dst, fmt.Errorf("value at offset %d exceeds %d bytes: divide it, or store its large parts in files", r.Begin, MaxValue)
		}
		r.text = append(r.text, b[:n]...)
		_, _ = r.in.Discard(n) // they are buffered
		r.offset += int64(n)
	}
	r.End = r.offset
	line := bytes.NewBuffer(dst)
	if err := json.Compact(line, r.text); err != nil {
		return dst, fmt.Errorf("value at offset %d: %w", r.Begin, WithCure(err))
	}
	return append(line.Bytes(), '\n'), nil
}

// WithCure adds a remedy to errors of encoding/json that writers cause.
func WithCure(err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "invalid character 'N' looking for"), strings.HasPrefix(text, "invalid character 'I'"):
		return fmt.Errorf("%w: NaN and Infinity are not JSON: write null instead, as pandas.DataFrame.to_json does", err)
	case strings.HasSuffix(text, "exceeded max depth"):
		return fmt.Errorf("%w: store the value as a string", err)
	}
	return err
}

// splitter finds the end of a value.
type splitter struct {
	depth                   int
	quoted, escaped, scalar bool // scalar: the value is a number or a word
}

// split returns how many of the next bytes belong to the value, and whether it ends after them.
func (s *splitter) split(b []byte) (n int, ended bool) {
	for i, c := range b {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted && c == '\\':
			s.escaped = true
		case s.quoted && c == '"':
			if s.quoted = false; s.depth == 0 {
				return i + 1, true
			}
		case s.quoted:
		case s.scalar && strings.IndexByte(delimiters, c) >= 0:
			return i, true
		case c == '"':
			s.quoted = true
		case c == '{', c == '[':
			s.depth++
		case c == '}', c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		case s.depth == 0:
			s.scalar = true
		}
	}
	return len(b), false
}

// Unexpected reports a byte that cannot begin a value, such as the end of an array.
type Unexpected struct {
	Offset int64
	Byte   byte
}

func (e *Unexpected) Error() string {
	return fmt.Sprintf("unexpected %q at offset %d", e.Byte, e.Offset)
}

// Decode fills dst with the lines of the values in stored, which begins with a value.
func Decode(_, stored, dst []byte) error {
	r := NewReader(bytes.NewReader(stored), 0)
	var line []byte
	for len(dst) > 0 {
		var err error
		if line, err = r.Next(line[:0]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if len(line) > len(dst) {
			return fmt.Errorf("value at offset %d: line of %d bytes exceeds the %d that are left of the chunk", r.Begin, len(line), len(dst))
		}
		dst = dst[copy(dst, line):]
	}
	return nil
}

// Room returns the memory that Decode needs in addition to the stored and decoded bytes: one value
// and its line, which are not longer than these, and the read buffer.
func Room(decoded int64) int64 { return 2*decoded + 1<<20 }
