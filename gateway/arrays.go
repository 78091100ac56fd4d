package gateway

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/records"
	"github.com/millrace-data/millrace/gateway/arrow"
)

// layNPY puts an .npy header before samples that make a flat array.
func layNPY(ctx context.Context, a *answering, l *located) error {
	dtype, shape := a.dataset.Index.Framing().(format.Array).Item()
	l.put(records.Header(dtype, uint64(len(l.samples)), shape)...)
	return layNative(ctx, a, l)
}

// columns are the parts of samples, by their names.
type columns struct {
	keys  []string
	names []string
	parts [][]chunkindex.Part // of each sample
}

// readColumns reads what the columns of an answer hold: those that fields names, or one for each name that a sample of the
// answer has, in byte order.
func readColumns(ctx context.Context, a *answering, l *located) (c columns, err error) {
	x := a.dataset.Index
	if c.keys, err = readKeys(ctx, x, l.samples); err != nil {
		return c, err
	}
	c.names = a.view.fields
	if c.parts, err = readParts(ctx, x, l.samples, c.names); err != nil || c.names != nil {
		return c, err
	}
	known := map[string]bool{}
	for _, all := range c.parts {
		for _, p := range all {
			if !known[p.Ext] {
				known[p.Ext] = true
				c.names = append(c.names, p.Ext)
			}
		}
		if err := l.checkText(int64(len(known)) * int64(len(l.samples))); err != nil {
			return c, err
		}
	}
	slices.Sort(c.names)
	return c, nil
}

// isText says whether a part is text in UTF-8, by the last of its extensions.
func isText(ext string) bool {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	return last == "json" || last == "txt"
}

// layArrow makes a stream of one record batch: the keys, then one column a part, whose bytes are stretches of samples.
func layArrow(ctx context.Context, a *answering, l *located) error {
	c, err := readColumns(ctx, a, l)
	if err != nil {
		return err
	}
	fields := []arrow.Field{{Name: "__key__", Text: true}}
	keys := make([]uint32, len(l.samples))
	for i, key := range c.keys {
		if !utf8.ValidString(key) {
			c.keys[i] = strings.ToValidUTF8(key, "\uFFFD")
		}
		keys[i] = uint32(len(c.keys[i]))
	}
	values := []arrow.Column{{Lengths: keys}}
	for _, name := range c.names {
		fields = append(fields, arrow.Field{Name: strings.ToValidUTF8(name, "\uFFFD"), Text: isText(name), Nullable: true})
		values = append(values, c.column(name))
	}
	if err := l.checkText(arrow.Most(fields, len(l.samples))); err != nil {
		return err
	}
	w, err := arrow.NewWriter(len(l.samples), fields, values)
	if err != nil {
		return unframed(err)
	}
	l.put(w.Head()...)
	for at := range values {
		l.put(w.Before(at)...)
		if at == 0 {
			for _, key := range c.keys {
				l.putString(key)
			}
		} else {
			for i, all := range c.parts {
				if n := partNamed(all, c.names[at-1]); n >= 0 {
					l.stretch(i, all[n].Offset, all[n].Length, all[n].CRC32C)
				}
			}
		}
		l.put(w.After(at)...)
	}
	l.put(arrow.End()...)
	return nil
}

// column says how long the values of a column are, and where there are none.
func (c columns) column(name string) arrow.Column {
	v := arrow.Column{Lengths: make([]uint32, len(c.parts))}
	for i, all := range c.parts {
		if n := partNamed(all, name); n >= 0 {
			v.Lengths[i] = all[n].Length
			continue
		}
		if v.Null == nil {
			v.Null = make([]bool, len(c.parts))
		}
		v.Null[i] = true
	}
	return v
}
