package arrowbatch

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// record assembles rows, or structs inside a list.
type record struct {
	layout  *rows.Layout
	builder *rows.Builder
	arrays  []*array // by step
	inner   []*list  // assemblers of the lists, by step
}

// list assembles the elements of lists.
type list struct {
	*array
	record *record // for elements that are structs
	inner  *list   // for elements that are themselves lists
	buf    []byte  // encoded lists of the current row
}

// newRecord returns the assembler for rows of these fields.
func newRecord(fields []*array) (*record, error) {
	var nodes []*rows.Node
	for _, a := range fields {
		nodes = append(nodes, a.node)
	}
	l, err := rows.NewLayout(nodes)
	if err != nil {
		return nil, err
	}
	r := &record{layout: l, builder: rows.NewBuilder(l)}
	for _, a := range fields {
		if err := r.add(a); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *record) add(a *array) error {
	at := len(r.arrays)
	r.arrays, r.inner = append(r.arrays, a), append(r.inner, nil)
	switch a.node.Kind {
	case rows.Struct:
		for _, c := range a.children {
			if err := r.add(c); err != nil {
				return err
			}
		}
	case rows.List:
		l, err := newList(a)
		r.inner[at] = l
		return err
	}
	return nil
}

func newList(a *array) (l *list, err error) {
	l = &list{array: a}
	switch element := a.children[0]; element.node.Kind {
	case rows.Struct:
		l.record, err = newRecord(element.children)
	case rows.List:
		l.inner, err = newList(element)
	}
	return l, err
}

// append appends row i to dst, which must not exceed limit.
func (r *record) append(dst []byte, i, limit int64) ([]byte, error) {
	r.builder.Reset()
	for s := 0; s < len(r.arrays); s++ {
		a := r.arrays[s]
		if a.null(i) {
			if !a.node.Nullable {
				return dst, fmt.Errorf("column %.100q: %w", a.node.Name, errUnmasked)
			}
			r.builder.Null(s)
			s += r.layout.Steps[s].Skip
			continue
		}
		switch a.node.Kind {
		case rows.Struct:
		case rows.List:
			l := r.inner[s]
			l.reset()
			v, err := l.value(i, limit)
			if err != nil {
				return dst, err
			}
			r.builder.Variable(v)
		default:
			v, err := a.value(i)
			if err != nil {
				return dst, err
			}
			if a.node.Kind == rows.Fixed {
				r.builder.Fixed(v)
			} else {
				r.builder.Variable(v)
			}
		}
	}
	return r.builder.Append(dst, limit)
}

// reset discards the encoded lists of the preceding row.
func (l *list) reset() {
	for ; l != nil; l = l.inner {
		l.buf = l.buf[:0]
	}
}

// value returns list i in encoded form. The result is valid until reset.
func (l *list) value(i, limit int64) ([]byte, error) {
	from, to, err := l.elements(i)
	if err != nil {
		return nil, err
	}
	if l.children[0].node.Kind == rows.Fixed {
		return l.flat(from, to, limit)
	}
	if to-from > limit {
		return nil, rows.ErrLimit
	}
	start := len(l.buf)
	nulls := make([]bool, to-from)
	for k := range nulls {
		if nulls[k] = l.children[0].null(from + int64(k)); nulls[k] {
			if !l.children[0].node.Nullable {
				return nil, fmt.Errorf("column %.100q: %w", l.node.Name, errUnmasked)
			}
			continue
		}
		if err := l.element(from+int64(k), limit); err != nil {
			return nil, err
		}
		if int64(len(l.buf)) > limit {
			return nil, rows.ErrLimit
		}
	}
	l.buf = rows.SealList(l.buf, start, nulls)
	return l.buf[start:], nil
}

// flat returns the concatenated fixed-size values [from, to).
func (l *list) flat(from, to, limit int64) ([]byte, error) {
	element := l.children[0]
	size := int64(element.node.Size)
	if !element.full(from, to) {
		return nil, fmt.Errorf("column %.100q: %w", l.node.Name, errNull)
	}
	if (to-from)*size > limit {
		return nil, rows.ErrLimit
	}
	if element.form == formFixed {
		return element.data[from*size : to*size], nil
	}
	start := len(l.buf)
	for i := from; i < to; i++ {
		v, err := element.value(i)
		if err != nil {
			return nil, err
		}
		l.buf = append(l.buf, v...)
	}
	return l.buf[start:], nil
}

// element appends a non-null element.
func (l *list) element(i, limit int64) (err error) {
	if l.record != nil {
		l.buf, err = l.record.append(l.buf, i, limit)
		return err
	}
	var v []byte
	if l.inner != nil {
		v, err = l.inner.value(i, limit)
	} else {
		v, err = l.children[0].value(i)
	}
	if err != nil {
		return err
	}
	if int64(len(l.buf)+len(v)) > limit {
		return rows.ErrLimit
	}
	l.buf = append(binary.LittleEndian.AppendUint32(l.buf, uint32(len(v))), v...)
	return nil
}
