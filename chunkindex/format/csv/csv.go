// Package csv reads comma-separated and tab-separated values (RFC 4180): files of one record a row, with or without a header. A sample is
// a record with its line end, and a batch begins with the header if there is one, so that a batch is such a file too.
//
// No byte says whether the first record is a header. Where it has what the names of columns rarely have, such as a number, the user has to say
// so: a sample that is taken for a header is lost.
//
// Quoting is checked, and that each record has as many fields as the header: a reader that finds a bad one in the middle of an epoch can
// only give up. Where readers disagree about where a record ends, the record is refused.
package csv

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Format reads comma-separated and tab-separated values.
func Format() format.Format {
	return format.Format{
		Name:   framing.CSV,
		Shards: "names in .csv or .tsv, and nothing else",
		Takes:  []format.Option{format.Header},
		Survey: survey,
	}
}

func suffixes() []string { return []string{".csv", ".tsv", ".tab"} }

// delimiter is what separates the fields of an object, by its name.
func delimiter(key string) byte {
	if slices.Contains([]string{".tsv", ".tab"}, format.Ext(key)) {
		return framing.Tab
	}
	return framing.Comma
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
	first, err := firstRecord(ctx, l, d.Shards)
	if err != nil {
		return nil, err
	}
	f, err := first.constants(d, o.Header)
	if err != nil {
		return nil, err
	}
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
			part: f.Part(), header: csvLine(f.Header), first: first.key, fields: f.Width, begun: f.Width > 0,
		}
		return s.run()
	}
	return d, nil
}

// record is the first one of a dataset.
type record struct {
	key    string // of its shard
	text   string // with its line end; empty: no shard has a record
	fields int
}

// csvLine is a record without its line end.
func csvLine(record string) string { return strings.TrimRight(record, "\r\n") }

// firstRecord looks for the first shard that has a record, and refuses shards of which the names promise different delimiters.
func firstRecord(ctx context.Context, l format.Listing, shards []format.Shard) (first record, err error) {
	for _, s := range shards {
		if delimiter(s.Key) != delimiter(shards[0].Key) {
			return first, fmt.Errorf("object %s and object %s have other delimiters by their names: choose those of one kind with --match", shards[0].Key, s.Key)
		}
		if first.text == "" {
			if first, err = look(ctx, l, s.Key); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// constants decides whether the first record is a header: the user decides, or else whether it looks like column names.
func (r record) constants(d *format.Dataset, header string) (framing.CSVConstants, error) {
	f := framing.CSVConstants{Delimiter: string(delimiter(d.Shards[0].Key))}
	if header == format.HeaderAbsent {
		f.Width = r.fields
		return f, nil
	}
	f.Header = r.text
	if header != "" || r.text == "" {
		return f, nil
	}
	if data := dataIn(strings.Split(csvLine(r.text), f.Delimiter)); data != "" {
		return f, fmt.Errorf("object %s: its first record, %.200q, has %s, so it may be a sample and no header: "+
			"--header absent takes the first record of each shard for a sample, --header present for a header", r.key, csvLine(r.text), data)
	}
	d.Assumed = func() string {
		return fmt.Sprintf("took the first record of each shard, %.200q, for a header, which is no sample: if it is one, index again with --header absent", csvLine(r.text))
	}
	return f, nil
}

// dataIn returns what the fields of a record have that the names of columns rarely do; empty: nothing.
func dataIn(fields []string) string {
	seen := make(map[string]bool, len(fields))
	for _, field := range fields {
		field = strings.Trim(field, "\" ")
		switch kind := naming.Kind(field); {
		case number(field):
			return "a number"
		case digitsAlone(field):
			return "a date, or other digits"
		case strings.Contains(field, "://"):
			return "an address"
		case kind != "" && kind != naming.Text:
			return "the name of a file"
		case field != "" && seen[field]:
			return "two equal fields"
		}
		seen[field] = true
	}
	return ""
}

// number says whether a field is a number, as few columns are called.
func number(field string) bool {
	_, err := strconv.ParseFloat(field, 64)
	return err == nil && strings.ContainsAny(field, "0123456789") // "nan" and "infinity" may be names
}

// digitsAlone says whether a field is digits with what divides them in dates, times and the like.
func digitsAlone(field string) bool {
	return strings.ContainsAny(field, "0123456789") && strings.Trim(field, "0123456789-/:.+TZ ") == ""
}

// look reads the first record of an object.
func look(ctx context.Context, l format.Listing, key string) (record, error) {
	for n := int64(format.HeadSize); ; n *= 16 {
		head, err := l.First(ctx, key, n)
		if err != nil {
			return record{}, err
		}
		whole := int64(len(head)) < n
		rest := strings.TrimLeft(strings.TrimPrefix(string(head), mark), "\r\n")
		p := framing.CSVParser{Delimiter: delimiter(key)}
		end, done, err := p.Next([]byte(rest), whole)
		switch {
		case err != nil:
			return record{}, fmt.Errorf("object %s: first record: %w", key, err)
		case rest == "" && whole:
			return record{}, nil
		case done && end <= framing.MaxHeader:
			return record{key, strings.TrimSuffix(rest[:end], "\n") + "\n", p.Fields}, nil
		case done || n > framing.MaxHeader:
			return record{}, fmt.Errorf("object %s: its first record is longer than %d bytes: does a quote end it?", key, framing.MaxHeader)
		}
	}
}
