// Package csv reads comma-separated and tab-separated values (RFC 4180): files of one record a row, which begin with a header. A sample is
// a record with its line end, and a batch begins with the header, so that a batch is such a file too.
//
// Quoting is checked, and that each record has as many fields as the header: a reader that finds a bad one in the middle of an epoch can
// only give up. Where readers disagree about where a record ends, the record is refused.
package csv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Name is what an index calls this format.
const Name = "csv"

const (
	comma = ','
	tab   = '\t'
)

// maxHeader bounds the header, which is kept in the index.
const maxHeader = 1 << 20

// Format reads comma-separated and tab-separated values.
func Format() format.Format {
	return format.Format{
		Name:    Name,
		Shards:  "names in .csv or .tsv, and nothing else",
		Survey:  survey,
		Framing: readFraming,
	}
}

func suffixes() []string { return []string{".csv", ".tsv", ".tab"} }

// delimiter is what separates the fields of an object, by its name.
func delimiter(key string) byte {
	if slices.Contains([]string{".tsv", ".tab"}, format.Ext(key)) {
		return tab
	}
	return comma
}

// survey takes objects that are called as such values are, where nothing else lies but what describes data: a table beside pictures is no
// dataset. If the format was asked for by name every object that holds data is a shard.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &format.Dataset{}
	for _, object := range format.Data(l.Objects()) {
		if !o.Named && !slices.Contains(suffixes(), format.Ext(object.Key)) {
			return nil, nil
		}
		d.Shards = append(d.Shards, format.Shard{Object: object})
	}
	if len(d.Shards) == 0 {
		return nil, nil
	}
	f := framing{Delimiter: string(delimiter(d.Shards[0].Key))}
	first := ""
	for _, s := range d.Shards {
		if delimiter(s.Key) != f.Delimiter[0] {
			return nil, fmt.Errorf("object %s and object %s have other delimiters by their names: choose those of one kind with --match", d.Shards[0].Key, s.Key)
		}
		if first == "" {
			header, err := look(ctx, l, s.Key)
			if err != nil {
				return nil, err
			}
			if header != "" {
				f.Header, first = header, s.Key
			}
		}
	}
	var err error
	if d.Framing, err = json.Marshal(f); err != nil {
		return nil, err
	}
	for i := range d.Shards {
		d.Shards[i].Says = string(d.Framing)
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		o := d.Shards[shard].Object
		s := scanner{
			Cursor: format.NewCursor(ctx, o, in, out), stem: format.Stem(o.Key, suffixes()...), delimiter: f.Delimiter[0],
			part: f.part(), header: strings.TrimRight(f.Header, "\r\n"), first: first,
		}
		return s.run()
	}
	return d, nil
}

// look reads the header of an object, with its line end. An object without a record has none.
func look(ctx context.Context, l format.Listing, key string) (string, error) {
	for n := int64(format.HeadSize); ; n *= 16 {
		head, err := l.First(ctx, key, n)
		if err != nil {
			return "", err
		}
		whole := int64(len(head)) < n
		rest := strings.TrimLeft(strings.TrimPrefix(string(head), mark), "\r\n")
		p := parser{delimiter: delimiter(key)}
		end, done, err := p.next([]byte(rest), whole)
		switch {
		case err != nil:
			return "", fmt.Errorf("object %s: header: %w", key, err)
		case rest == "" && whole:
			return "", nil
		case done && end <= maxHeader:
			if !strings.HasSuffix(rest[:end], "\n") {
				return rest[:end] + "\n", nil
			}
			return rest[:end], nil
		case done || n > maxHeader:
			return "", fmt.Errorf("object %s: its header is longer than %d bytes: is its first line a header, and does a quote end it?", key, maxHeader)
		}
	}
}

// framing begins each batch with the header. Its fields are the constants of the dataset.
type framing struct {
	Delimiter string `json:"delimiter"`
	Header    string `json:"header"` // with its line end; empty: no shard has a record
}

// readFraming reads the constants of an index, which may say anything.
func readFraming(constants json.RawMessage) (format.Framing, error) {
	var f framing
	in := json.NewDecoder(strings.NewReader(string(constants)))
	in.DisallowUnknownFields()
	if err := in.Decode(&f); err != nil {
		return nil, err
	}
	if f.Delimiter != string(comma) && f.Delimiter != string(tab) {
		return nil, fmt.Errorf("delimiter %.10q", f.Delimiter)
	}
	if f.Header == "" {
		return f, nil
	}
	p := parser{delimiter: f.Delimiter[0]}
	end, done, err := p.next([]byte(f.Header), true)
	if err == nil && (!done || end != len(f.Header) || !strings.HasSuffix(f.Header, "\n") || end > maxHeader) {
		err = errors.New("it is no line")
	}
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return f, nil
}

// part is the extension of a record without its line end.
func (f framing) part() string {
	if f.Delimiter[0] == tab {
		return "tsv"
	}
	return "csv"
}

func (f framing) ContentType() string {
	if f.Delimiter[0] == tab {
		return "text/tab-separated-values"
	}
	return "text/csv"
}

func (f framing) Frame([]uint32) (before, after []byte, err error) { return []byte(f.Header), nil, nil }

// Fields implements format.Typed.
func (f framing) Fields() []format.Field {
	return []format.Field{{Name: f.part(), Encoding: f.part()}}
}
