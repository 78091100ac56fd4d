package body

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// columns are the parts of samples, by their names.
type columns struct {
	t     texts
	names []string
	types map[string]format.Field // fields by part name; empty: no types are known

	classes bool // every sample has a part with its class added
}

// readColumns returns the columns of a body: the parts in View.Fields, or those that the dataset's
// format declares, or one per part in any sample of the body, in byte order.
func readColumns(ctx context.Context, b *Body, a Answer) (c columns, err error) {
	if c.t, err = b.readTexts(ctx, a); err != nil {
		return c, err
	}
	x := a.Dataset.Index
	c.names, c.types, c.classes = a.View.Fields, map[string]format.Field{}, x.InClassFolders()
	for _, f := range x.Fields() {
		c.types[f.Name] = f
		if a.View.Fields == nil && !x.OtherParts() {
			c.names = append(c.names, f.Name)
		}
	}
	if c.names == nil {
		c.names, err = c.t.allNames(b)
	}
	return c, err
}

// allNames returns the names of all parts in byte order.
func (t texts) allNames(b *Body) (names []string, err error) {
	known := map[string]bool{}
	for _, all := range t.parts {
		for _, p := range all {
			if !known[p.Ext] {
				known[p.Ext] = true
				names = append(names, p.Ext)
			}
		}
		if err := b.checkText(int64(len(known)) * int64(len(b.samples))); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

// isText reports whether a part is UTF-8 text, by its last extension.
func isText(ext string) bool {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	return last == "json" || last == "txt"
}

// field returns the column for a part name. A part whose bytes match no Arrow type becomes a bytes
// column, with its encoding in the metadata.
func (c columns) field(name string) arrow.Field {
	f := arrow.Field{Name: strings.ToValidUTF8(name, "\uFFFD"), Type: arrow.Bytes(), Nullable: true}
	if isText(name) {
		f.Type = arrow.Text()
	}
	told, ok := c.types[name]
	if !ok {
		return f
	}
	f.Nullable = told.Nullable
	if name == chunkindex.ClassPart && c.classes {
		f.Type, _ = arrow.ParseType(told.Type)
		return f
	}
	if told.Encoding == format.Raw {
		t, ok := arrow.ParseType(told.Type)
		if ok && told.Shape != nil {
			t, ok = t.Array(told.Shape)
		}
		if f.Type = t; ok {
			return logicalField(f, told)
		}
	}
	f.Type = arrow.Bytes()
	if told.Encoding == format.JSON {
		f.Type = arrow.Text()
	}
	f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:encoding", Value: told.Encoding})
	if told.Type != "" {
		f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:type", Value: told.Type})
	}
	return f
}

// logicalField sets the logical type of a column, if the stored bytes have that type. Otherwise it
// stores the logical type in the metadata.
func logicalField(f arrow.Field, told format.Field) arrow.Field {
	switch small, ok := narrow(told); {
	case ok:
		f.Type = small
	case told.Logical == "uuid" || told.Logical == "json":
		f.Type = f.Type.Extension("arrow." + told.Logical)
	case told.Logical != "":
		f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:logical", Value: told.Logical})
	}
	return f
}

// key returns a name for the column of keys that no part has. Tables converted from WebDataset
// already have a column __key__.
func (c columns) key() string {
	name := keyColumn
	for slices.Contains(c.names, name) {
		name = "millrace:" + name
	}
	return name
}

// layOutArrow lays out a stream of one record batch: the keys, then one column per part, with
// values that are ranges of samples.
func layOutArrow(ctx context.Context, b *Body, a Answer) error {
	c, err := readColumns(ctx, b, a)
	if err != nil {
		return err
	}
	fields := []arrow.Field{{Name: c.key(), Type: arrow.Text()}}
	for _, name := range c.names {
		fields = append(fields, c.field(name))
	}
	if err := b.checkText(arrow.Most(fields, len(b.samples))); err != nil {
		return err
	}
	keys := make([]uint32, len(b.samples))
	for i, key := range c.t.keys {
		if !utf8.ValidString(key) {
			c.t.keys[i] = strings.ToValidUTF8(key, "\uFFFD")
		}
		keys[i] = uint32(len(c.t.keys[i]))
	}
	places := c.places()
	values := []arrow.Column{{Lengths: keys}}
	for i := range c.names {
		values = append(values, c.column(places[i], &fields[i+1]))
	}
	if err := b.checkText(arrow.Most(fields, len(b.samples)) + zeros(fields, values)); err != nil {
		return err
	}
	w, err := arrow.NewWriter(len(b.samples), fields, values)
	switch {
	case errors.Is(err, arrow.ErrUnfit):
		return address.Refuse(address.Invalid, "%v: exclude it with fields=, or request another format", err).Because(err)
	case err != nil:
		return unframed(err)
	}
	b.put(w.Head()...)
	b.put(w.Before(0)...)
	for _, key := range c.t.keys {
		b.putString(key)
	}
	b.put(w.After(0)...)
	for i := range c.names {
		b.put(w.Before(i + 1)...)
		b.layOutColumn(c.t, places[i], uint32(fields[i+1].Type.Width()))
		b.put(w.After(i + 1)...)
	}
	b.put(arrow.End()...)
	return nil
}

// layOutColumn adds the values of a column. Missing values of a fixed size become zeros. If a part
// is longer than the type, its first bytes are the value.
func (b *Body) layOutColumn(t texts, places []int32, width uint32) {
	for i, n := range places {
		if n < 0 {
			b.pad(int(width))
			continue
		}
		p := t.parts[i][n]
		switch {
		case p.added && width > 0:
			b.put(binary.LittleEndian.AppendUint64(nil, uint64(p.class))...)
		case width > 0 && p.Length > width:
			b.stretchPart(i, narrowed(p, width))
		default:
			b.stretchPart(i, p)
		}
	}
}

// absent is the index of a missing part.
const absent = -1

// places returns for each column the index of the part in each sample.
func (c columns) places() [][]int32 {
	all := make([][]int32, len(c.names))
	column := make(map[string]int, len(c.names))
	for i, name := range c.names {
		all[i] = slices.Repeat([]int32{absent}, len(c.t.parts))
		column[name] = i
	}
	for row, parts := range c.t.parts {
		for n, p := range parts {
			if i, ok := column[p.Ext]; ok && all[i][row] == absent {
				all[i][row] = int32(n)
			}
		}
	}
	return all
}

// column returns the lengths of a column's values and the missing ones. Missing values make the
// field nullable.
func (c columns) column(places []int32, f *arrow.Field) arrow.Column {
	v := arrow.Column{Lengths: make([]uint32, len(places))}
	_, narrows := narrow(c.types[f.Name])
	for row, n := range places {
		if n >= 0 {
			p := &c.t.parts[row][n]
			v.Lengths[row] = p.Length
			if narrows && p.Length == wide || p.added && c.classes {
				v.Lengths[row] = uint32(f.Type.Width())
			}
			continue
		}
		if v.Null == nil {
			v.Null = make([]bool, len(places))
			f.Nullable = true
		}
		v.Null[row] = true
	}
	return v
}

// zeros returns the number of bytes for missing values of fixed sizes.
func zeros(fields []arrow.Field, values []arrow.Column) (n int64) {
	for i, v := range values {
		for _, null := range v.Null {
			if null {
				n += int64(fields[i].Type.Width())
			}
		}
	}
	return n
}
