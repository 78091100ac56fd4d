package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/codec/jsonvalue"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// MaxLine limits the length of a line, which is validated as a whole in memory.
const MaxLine = 64 << 20

// mark is the byte order mark that some writers put before UTF-8.
const mark = "\xef\xbb\xbf"

// scanner reads one file.
type scanner struct {
	*format.Cursor
	stem string // prefix of the samples' keys
	line uint64 // number of the current line, from 1
	n    uint64 // samples found
}

func (s *scanner) run() error {
	begin, err := s.Peek(int64(len(mark)))
	if err == nil && string(begin) == mark {
		err = s.Gap(int64(len(mark)))
	}
	if err != nil {
		return err
	}
	for {
		line, err := s.Line(MaxLine)
		if err != nil || len(line) == 0 {
			return err
		}
		s.line++
		if len(line) > MaxLine {
			return s.fail(0, "longer than %d bytes: divide the value, or store its large parts in files", MaxLine)
		}
		if err := s.take(line); err != nil {
			return err
		}
	}
}

// fail returns an error at an offset of the current line.
func (s *scanner) fail(at int64, reason string, args ...any) error {
	return &format.Error{Offset: s.Offset() + at, Reason: fmt.Sprintf("line %d: ", s.line) + fmt.Sprintf(reason, args...)}
}

// take handles a line: a sample, or white space between samples.
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
		return s.Gap(int64(len(line)))
	}
	if err := s.check(text, ended); err != nil {
		return err
	}
	s.n++
	// A missing line feed is added, so that another line can follow it in a batch.
	return s.Whole(format.Numbered(s.stem, s.n-1), Part, int64(end), int64(len(line)), !ended)
}

// check rejects a line unless every reader finds exactly one valid JSON value in it. A last line
// without a line end may be truncated. Only a truncated number is still valid JSON, so check
// rejects an unterminated number.
func (s *scanner) check(text []byte, ended bool) error {
	if value := bytes.TrimLeft(text, " \t"); !ended && bytes.IndexByte([]byte("-0123456789"), value[0]) >= 0 {
		return s.fail(0, "the last line is a number without a line feed: it may be truncated")
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
	return s.fail(at, "not JSON: %v", jsonvalue.WithCure(err))
}

// invalid returns the offset of the first byte that is not valid UTF-8.
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
