package csv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// MaxRecord limits the length of a record, which is checked as a whole in memory.
const MaxRecord = 64 << 20

// mark is the byte order mark that some writers put before UTF-8.
const mark = "\xef\xbb\xbf"

// scanner reads one file.
type scanner struct {
	*format.Cursor
	stem      string // prefix of the samples' keys
	delimiter byte
	part      string
	header    string // header of every shard, without its line end
	first     string // shard that defines the header
	fields    int    // number of fields in the header, or in the first record if the dataset has no header
	n         uint64 // samples found
	begun     bool   // the header was read, or the shards have none
}

func (s *scanner) run() error {
	begin, err := s.Peek(int64(len(mark)))
	if err == nil && string(begin) == mark {
		err = s.Gap(int64(len(mark)))
	}
	for err == nil {
		var ended bool
		if ended, err = s.record(); ended {
			return err
		}
	}
	return err
}

// fail returns an error at an offset of the current record.
func (s *scanner) fail(at int, reason error) error {
	what := "header"
	if s.begun {
		what = fmt.Sprintf("record %d", s.n+1)
	}
	return &format.Error{Offset: s.Offset() + int64(at), Reason: fmt.Sprintf("%s: %v", what, reason)}
}

// record reads the next record. ended is true at the end of the file.
func (s *scanner) record() (ended bool, err error) {
	p := framing.CSVParser{Delimiter: s.delimiter}
	for n := int64(format.HeadSize); ; n *= 2 {
		b, err := s.Peek(min(n, MaxRecord+1))
		if err != nil {
			return false, err
		}
		whole := int64(len(b)) < n && len(b) <= MaxRecord
		end, done, err := p.Next(b, whole)
		switch {
		case err != nil:
			return false, s.fail(p.At, err)
		case len(b) == 0:
			return true, nil
		case done:
			return false, s.take(b[:end], &p)
		case n > MaxRecord:
			return false, s.fail(p.Quote, fmt.Errorf("longer than %d bytes: is a closing quote missing?", MaxRecord))
		}
	}
}

// take handles a record: the header, a sample, or an empty line.
func (s *scanner) take(record []byte, p *framing.CSVParser) error {
	text := bytes.TrimSuffix(bytes.TrimSuffix(record, []byte("\n")), []byte("\r"))
	if len(text) == 0 {
		if s.begun && s.fields == 1 {
			return s.fail(0, errEmpty)
		}
		return s.Gap(int64(len(record)))
	}
	if !utf8.Valid(text) {
		return s.fail(0, errors.New("not UTF-8: convert it to UTF-8, for example with iconv"))
	}
	if first := !s.begun || s.header == ""; first && bytes.HasPrefix(text, []byte(mark)) {
		return s.fail(0, errors.New("a byte order mark, which readers drop at the start of a batch: remove it"))
	}
	if !s.begun {
		if string(text) != s.header {
			return s.fail(0, fmt.Errorf("it is %.200q, but that of %s is %.200q: shards of one dataset must have the same header; if they have none, use --header absent", text, s.first, s.header))
		}
		s.begun, s.fields = true, p.Fields
		return s.Gap(int64(len(record)))
	}
	if p.Fields != s.fields {
		cure := ""
		if s.delimiter == framing.Comma && strings.Contains(s.header, ";") {
			cure = ": the header has semicolons: write commas, as pandas.read_csv(file, sep=';').to_csv(file, index=False) does"
		}
		return s.fail(0, fmt.Errorf("%d fields, but %d in the first record of %s%s", p.Fields, s.fields, s.first, cure))
	}
	if s.fields == 1 && len(bytes.Trim(text, " \t")) == 0 {
		return s.fail(0, errors.New("only spaces, which some readers treat as an empty line: quote them"))
	}
	s.n++
	ended := record[len(record)-1] == '\n' // otherwise a line feed is added, so that another record can follow it in a batch
	return s.Whole(format.Numbered(s.stem, s.n-1), s.part, int64(len(text)), int64(len(record)), !ended)
}

var errEmpty = errors.New(`an empty line in a file of one column, which readers treat as null or ignore: sed -i 's/^\r\?$/""&/' makes each of these lines a sample, sed -i '/^\r\?$/d' removes these lines`)
