package body

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// layOutArrow lays out a stream of one record batch: the keys, then the columns. The values are
// ranges of samples, or literal bytes if they are converted.
func layOutArrow(ctx context.Context, b *Body, a Answer) error {
	c, err := readColumns(ctx, b, a)
	if err != nil {
		return err
	}
	keys := &column{Column: arrow.NewColumn(arrow.Field{Type: arrow.Text()})}
	all := append([]*arrow.Column{keys.Column}, c.plan()...)
	keys.Name = keyName(all)
	if err := b.checkText(arrow.Most(all, len(b.samples))); err != nil {
		return err
	}
	for i, key := range c.t.keys {
		if !utf8.ValidString(key) {
			c.t.keys[i] = strings.ToValidUTF8(key, "\uFFFD")
		}
		keys.Lengths = append(keys.Lengths, uint32(len(c.t.keys[i])))
	}
	c.locate()
	err = errors.Join(keys.SetLengths(keys.Lengths, nil), c.measureAll(b))
	switch {
	case errors.Is(err, arrow.ErrUnfit):
		return address.Refuse(address.Invalid, "%v: exclude it with fields=, or request another format", err).Because(err)
	case err != nil:
		return err
	}
	w, err := arrow.NewWriter(len(b.samples), all)
	if err != nil {
		return unframed(err)
	}
	b.putColumns(w, c)
	return nil
}

// keyName returns a name for the column of keys that no part has. Tables converted from WebDataset
// already have a column __key__.
func keyName(all []*arrow.Column) string {
	name := keyColumn
	for slices.ContainsFunc(all, func(c *arrow.Column) bool { return c.Name == name }) {
		name = "millrace:" + name
	}
	return name
}

// measureAll sets the sizes of all columns, and converts values. Before it allocates converted
// values, it reserves their memory twice, because the text of the body has a copy.
func (c *columns) measureAll(b *Body) error {
	var samples [][]byte
	if b.loaded != nil {
		samples = b.loaded.read.Segments
	}
	text := int64(0)
	for _, n := range c.all {
		if n.builder == nil {
			if err := c.measure(n); err != nil {
				return err
			}
			text += n.zeros()
			continue
		}
		if err := c.build(n, samples); err != nil {
			return err
		}
		text += n.builder.Size()
	}
	if err := b.checkText(text); err != nil {
		return err
	}
	if b.loaded != nil {
		if err := b.loaded.held.Add(b.loaded.reserve(2 * text)); err != nil {
			return err
		}
	}
	for _, n := range c.all {
		if n.builder == nil {
			continue
		}
		n.builder.Measured()
		if err := c.build(n, samples); err != nil {
			return err
		}
		n.builder.Trim()
	}
	return nil
}

// zeros returns the number of bytes for missing values of a fixed size.
func (n *column) zeros() (sum int64) {
	for _, at := range n.parts {
		if at < 0 {
			sum += int64(n.Type.Width())
		}
	}
	return sum
}

// putColumns adds all columns of a stream.
func (b *Body) putColumns(w *arrow.Writer, c *columns) {
	sent := map[*arrow.Column]*column{} // columns whose values are parts
	for _, n := range c.all {
		if n.builder == nil {
			sent[n.Holder()] = n
		}
	}
	b.put(w.Head()...)
	for i, own := range w.Columns() {
		b.put(own.Before()...)
		switch n := sent[own]; {
		case i == 0:
			for _, key := range c.t.keys {
				b.putString(key)
			}
		case n != nil:
			b.putParts(c.t, n)
		default:
			b.put(own.Values...)
		}
		b.put(own.After()...)
	}
	b.put(arrow.End()...)
}

// putParts adds the values of a column that are parts. Missing values of a fixed size become zeros.
func (b *Body) putParts(t texts, n *column) {
	width := n.Type.Width()
	for i, at := range n.parts {
		switch {
		case at < 0:
			b.pad(width)
		case t.parts[i][at].added && width > 0:
			b.put(binary.LittleEndian.AppendUint64(nil, uint64(t.parts[i][at].class))...)
		default:
			b.stretchPart(i, t.parts[i][at])
		}
	}
}
