// Package csv reads comma-separated and tab-separated values (RFC 4180): files with one record per
// row, with or without a header. A sample is a record including its line end. A batch begins with
// the header, if there is one, so a batch is itself a valid file.
//
// Nothing marks the first record as a header. If it contains values that are unusual in column
// names, such as a number, the user must decide, because a sample mistaken for a header would be
// lost.
//
// The scan validates quoting and requires the same number of fields in every record, because a
// training run cannot recover from an invalid record in the middle of an epoch. The scan rejects
// records if readers disagree on where they end.
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

// Format returns the format of comma-separated and tab-separated values.
func Format() format.Format {
	return format.Format{
		Name:   framing.CSV,
		Shards: "names in .csv or .tsv, and nothing else",
		Takes:  []format.Option{format.Header},
		Survey: survey,
	}
}

func suffixes() []string { return []string{".csv", ".tsv", ".tab"} }

// delimiter returns the field delimiter that an object's name indicates.
func delimiter(key string) byte {
	if slices.Contains([]string{".tsv", ".tab"}, format.Ext(key)) {
		return framing.Tab
	}
	return framing.Comma
}

// survey claims objects by name if all other objects only describe data, because a table next to
// images is no dataset. If the user names the format, survey claims all objects that can hold
// samples.
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

// record is the first record of a dataset.
type record struct {
	key    string // key of the record's shard
	text   string // text including the line end; empty: no shard has a record
	fields int
}

// csvLine returns the text of a record without its line end.
func csvLine(record string) string { return strings.TrimRight(record, "\r\n") }

// firstRecord returns the first record of the first non-empty shard. It returns an error if the
// shards' names indicate different delimiters.
func firstRecord(ctx context.Context, l format.Listing, shards []format.Shard) (first record, err error) {
	for _, s := range shards {
		if delimiter(s.Key) != delimiter(shards[0].Key) {
			return first, fmt.Errorf("the names of the objects %s and %s indicate different delimiters: select objects of one kind with --match", shards[0].Key, s.Key)
		}
		if first.text == "" {
			if first, err = look(ctx, l, s.Key); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// constants decides whether the first record is a header. It follows the user's choice, or else the
// record's contents.
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
		return f, fmt.Errorf("object %s: its first record, %.200q, has %s, so it may be a sample rather than a header: "+
			"use --header absent if the first record of each shard is a sample, --header present if it is a header", r.key, csvLine(r.text), data)
	}
	d.Assumed = func() string {
		return fmt.Sprintf("treated the first record of each shard, %.200q, as a header: if it is a sample, index again with --header absent", csvLine(r.text))
	}
	return f, nil
}

// dataIn describes the contents of a record that are unusual in column names. It returns "" if
// there are none.
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

// number reports whether a field is a number, which is unusual as a column name.
func number(field string) bool {
	_, err := strconv.ParseFloat(field, 64)
	return err == nil && strings.ContainsAny(field, "0123456789") // "nan" and "infinity" may be names
}

// digitsAlone reports whether a field consists only of digits and of separators such as those in
// dates and times.
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
			return record{}, fmt.Errorf("object %s: its first record is longer than %d bytes: is a closing quote missing?", key, framing.MaxHeader)
		}
	}
}
