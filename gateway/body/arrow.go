package body

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// columns are the parts of samples, by their names.
type columns struct {
	keys  []string
	names []string
	parts [][]chunkindex.Part // of each sample
}

// readColumns reads what the columns of a body hold: those that fields names, or one for each part that a sample of the
// body has, in byte order.
func readColumns(ctx context.Context, b *Body, a Answer) (c columns, err error) {
	t, err := b.readTexts(ctx, a)
	c.keys, c.names, c.parts = t.keys, a.View.Fields, t.parts
	if err != nil || c.names != nil {
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
		if err := b.checkText(int64(len(known)) * int64(len(b.samples))); err != nil {
			return c, err
		}
	}
	slices.Sort(c.names)
	return c, nil
}

// isText reports whether a part is text in UTF-8, by the last of its extensions.
func isText(ext string) bool {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	return last == "json" || last == "txt"
}

// layArrow makes a stream of one record batch: the keys, then one column a part, whose bytes are stretches of samples.
func layArrow(ctx context.Context, b *Body, a Answer) error {
	c, err := readColumns(ctx, b, a)
	if err != nil {
		return err
	}
	fields := []arrow.Field{{Name: "__key__", Text: true}}
	keys := make([]uint32, len(b.samples))
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
	if err := b.checkText(arrow.Most(fields, len(b.samples))); err != nil {
		return err
	}
	w, err := arrow.NewWriter(len(b.samples), fields, values)
	if err != nil {
		return unframed(err)
	}
	b.put(w.Head()...)
	for at := range values {
		b.put(w.Before(at)...)
		if at == 0 {
			for _, key := range c.keys {
				b.putString(key)
			}
		} else {
			for i, all := range c.parts {
				if n := partNamed(all, c.names[at-1]); n >= 0 {
					b.stretchPart(i, all[n])
				}
			}
		}
		b.put(w.After(at)...)
	}
	b.put(arrow.End()...)
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
