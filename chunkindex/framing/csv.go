package framing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// The delimiters.
const (
	Comma = ','
	Tab   = '\t'
)

// MaxHeader is the largest length of the first record of a dataset, because the index stores the
// header.
const MaxHeader = 1 << 20

// CSVConstants holds the constants of a CSV or TSV dataset, and implements its framing: each batch
// begins with the header, if shards have one.
type CSVConstants struct {
	Delimiter string `json:"delimiter"`
	Header    string `json:"header"`           // including its line end; empty: no shard has a header
	Width     int    `json:"fields,omitempty"` // number of fields in each record if shards have no header; 0: shards have a header, or no records
}

// readCSV parses and checks the constants, because they come from an untrusted index.
func readCSV(constants json.RawMessage) (format.Framing, error) {
	var f CSVConstants
	if err := strict(constants, &f); err != nil {
		return nil, err
	}
	if f.Delimiter != string(Comma) && f.Delimiter != string(Tab) {
		return nil, fmt.Errorf("invalid delimiter %.10q", f.Delimiter)
	}
	if f.Width < 0 || f.Width > 0 && f.Header != "" {
		return nil, fmt.Errorf("%d fields do not match the header %.10q", f.Width, f.Header)
	}
	if f.Header == "" {
		return f, nil
	}
	p := CSVParser{Delimiter: f.Delimiter[0]}
	end, done, err := p.Next([]byte(f.Header), true)
	if err == nil && (!done || end != len(f.Header) || !strings.HasSuffix(f.Header, "\n") || end > MaxHeader) {
		err = errors.New("it is not a single line")
	}
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return f, nil
}

// Part returns the extension of a record without its line end.
func (f CSVConstants) Part() string {
	if f.Delimiter[0] == Tab {
		return "tsv"
	}
	return "csv"
}

// ContentType returns the media type of a batch.
func (f CSVConstants) ContentType() string {
	if f.Delimiter[0] == Tab {
		return "text/tab-separated-values"
	}
	return "text/csv"
}

// Frame returns the header, which precedes the records.
func (f CSVConstants) Frame([]uint32) (before, after []byte, err error) {
	return []byte(f.Header), nil, nil
}

// Fields implements format.Typed.
func (f CSVConstants) Fields() []format.Field {
	return []format.Field{{Name: f.Part(), Encoding: f.Part()}}
}

// CSVParser finds the end of a record in a CSV or TSV shard.
type CSVParser struct {
	Delimiter byte
	place     place
	At        int // number of bytes of the record parsed so far
	Quote     int // offset at which the last quoted field begins
	Fields    int // number of fields that have begun
}

// place is the position of a byte in a record.
type place int

const (
	fieldBegins place = iota
	inField           // without quotes
	inQuotes
	afterQuote  // after a quote that either ends the field or is the first of an escaped pair
	afterReturn // a carriage return outside quotes, which a line feed must follow
)

var (
	errQuote  = errors.New("a quote inside an unquoted field: quote the field, and double the quotes inside it")
	errBehind = errors.New("bytes after the closing quote of a field: double each quote inside a field")
	errReturn = errors.New("a carriage return inside an unquoted field, where some readers end the record: quote the field")
	errOpen   = errors.New("the file ends inside a quoted field: the closing quote is missing")
)

// Next continues parsing a record. b holds all bytes read so far from the start of the record. Next
// reports whether b holds the whole record, and where the record ends. If whole is set, no bytes
// follow b.
func (p *CSVParser) Next(b []byte, whole bool) (end int, done bool, err error) {
	for p.At < len(b) {
		if p.place == inQuotes {
			if i := bytes.IndexByte(b[p.At:], '"'); i < 0 {
				p.At = len(b)
			} else {
				p.At += i + 1
				p.place = afterQuote
			}
			continue
		}
		done, err := p.step(b[p.At])
		if err != nil {
			return 0, false, err
		}
		p.At++
		if done {
			return p.At, true, nil
		}
	}
	switch {
	case !whole:
		return 0, false, nil
	case p.place == inQuotes:
		p.At = p.Quote
		return 0, false, errOpen
	case p.place == afterReturn:
		p.At--
		return 0, false, errReturn
	}
	if p.place == fieldBegins { // the last field is empty
		p.Fields++
	}
	return len(b), true, nil
}

// step parses one byte outside quotes, and reports whether it ends the record.
func (p *CSVParser) step(c byte) (done bool, err error) {
	if p.place == fieldBegins {
		p.Fields++
	}
	switch {
	case p.place == afterReturn && c != '\n':
		p.At--
		return false, errReturn
	case c == '\n':
		return true, nil
	case c == '\r':
		p.place = afterReturn
	case c == p.Delimiter:
		p.place = fieldBegins
	case c == '"' && p.place == fieldBegins:
		p.place, p.Quote = inQuotes, p.At
	case c == '"' && p.place == afterQuote:
		p.place = inQuotes
	case c == '"':
		return false, errQuote
	case p.place == afterQuote:
		return false, errBehind
	default:
		p.place = inField
	}
	return false, nil
}
