// Package rowstest reads rows for tests. It follows the specification of the row encoding and
// shares no code with the package that writes rows.
package rowstest

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Row reads one row of a schema from the start of b, and returns the bytes after the row. It
// returns a value as a []byte, a struct as a map by field name, a list as a []any, and null as nil.
func Row(fields []*rows.Node, b []byte) (map[string]any, []byte, error) {
	r := &reader{bitmap: b}
	bits := count(fields)
	r.b = b[max(1, (bits+7)/8):]
	var present []*slot
	row := r.shape(fields, false, &present)
	for _, s := range present {
		if s.node.Kind != rows.Fixed {
			s.length = int(binary.LittleEndian.Uint32(r.b))
			r.b = r.b[4:]
		}
	}
	for _, s := range present {
		v := r.b[:s.length]
		r.b = r.b[s.length:]
		var err error
		if s.in[s.node.Name], err = value(s.node, v); err != nil {
			return nil, nil, err
		}
	}
	return row, r.b, nil
}

// reader is the state while a row is read.
type reader struct {
	bitmap, b []byte
	bit       int
}

// slot is the position of a value that is present: the map that receives it, and its length.
type slot struct {
	node   *rows.Node
	in     map[string]any
	length int
}

// count returns the number of nullable nodes that are not inside lists.
func count(fields []*rows.Node) int {
	n := 0
	for _, f := range fields {
		if f.Nullable {
			n++
		}
		if f.Kind == rows.Struct {
			n += count(f.Children)
		}
	}
	return n
}

// shape creates the maps of a row and lists the present values in row order.
func (r *reader) shape(fields []*rows.Node, gone bool, present *[]*slot) map[string]any {
	row := map[string]any{}
	for _, f := range fields {
		null := gone
		if f.Nullable {
			null = r.bitmap[r.bit/8]&(1<<(r.bit%8)) != 0 || gone
			r.bit++
		}
		row[f.Name] = nil
		if f.Kind == rows.Struct {
			inside := r.shape(f.Children, null, present)
			if !null {
				row[f.Name] = inside
			}
			continue
		}
		if !null {
			*present = append(*present, &slot{f, row, f.Size})
		}
	}
	return row
}

// value reads a value that is not a struct.
func value(n *rows.Node, b []byte) (any, error) {
	if n.Kind != rows.List {
		return b, nil
	}
	element := n.Children[0]
	list := []any{}
	if element.Kind == rows.Fixed {
		for ; len(b) > 0; b = b[element.Size:] {
			list = append(list, b[:element.Size])
		}
		return list, nil
	}
	many := int(binary.LittleEndian.Uint32(b))
	nulls := b[4:]
	b = nulls[(many+7)/8:]
	for i := range many {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			list = append(list, nil)
			continue
		}
		var v any
		var err error
		if element.Kind == rows.Struct {
			v, b, err = Row(element.Children, b)
		} else {
			length := 4 + int(binary.LittleEndian.Uint32(b))
			v, err = value(element, b[4:length])
			b = b[length:]
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes after a list of %q", len(b), n.Name)
	}
	return list, nil
}
