package arrowbatch

import (
	"encoding/binary"

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
func (r *record) append(dst []byte, i, limit int64) []byte {
	r.builder.Reset()
	for s := 0; s < len(r.arrays); s++ {
		switch a := r.arrays[s]; {
		case a.absent(i, a.node):
			r.builder.Null(s)
			s += r.layout.Steps[s].Skip
		case a.node.Kind == rows.List:
			l := r.inner[s]
			l.reset()
			r.builder.Variable(l.value(i, limit))
		case a.node.Kind == rows.Fixed:
			r.builder.Fixed(a.value(i))
		case a.node.Kind == rows.Bytes:
			r.builder.Variable(a.value(i))
		}
	}
	dst, err := r.builder.Append(dst, limit)
	if err != nil {
		fail(err)
	}
	return dst
}

// absent reports whether value i is null. It fails if the schema does not allow that. column is the
// node for the error.
func (a *array) absent(i int64, column *rows.Node) bool {
	if !a.null(i) {
		return false
	}
	if !a.node.Nullable {
		failIn(column, errUnmasked)
	}
	return true
}

// reset discards the encoded lists of the preceding row.
func (l *list) reset() {
	for ; l != nil; l = l.inner {
		l.buf = l.buf[:0]
	}
}

// value returns list i in encoded form. The result is valid until reset.
func (l *list) value(i, limit int64) []byte {
	from, to := l.elements(i)
	if l.children[0].node.Kind == rows.Fixed {
		return l.flat(from, to, limit)
	}
	if to-from > limit {
		fail(rows.ErrLimit)
	}
	start := len(l.buf)
	nulls := make([]bool, to-from)
	for k := range nulls {
		if nulls[k] = l.children[0].absent(from+int64(k), l.node); nulls[k] {
			continue
		}
		if l.element(from+int64(k), limit); int64(len(l.buf)) > limit {
			fail(rows.ErrLimit)
		}
	}
	l.buf = rows.SealList(l.buf, start, nulls)
	return l.buf[start:]
}

// flat returns the concatenated fixed-size values [from, to).
func (l *list) flat(from, to, limit int64) []byte {
	element := l.children[0]
	size := int64(element.node.Size)
	if !element.full(from, to) {
		failIn(l.node, errNull)
	}
	if (to-from)*size > limit {
		fail(rows.ErrLimit)
	}
	if element.form == formFixed {
		return element.data[from*size : to*size]
	}
	start := len(l.buf)
	for i := from; i < to; i++ {
		l.buf = append(l.buf, element.value(i)...)
	}
	return l.buf[start:]
}

// element appends a non-null element.
func (l *list) element(i, limit int64) {
	var v []byte
	switch {
	case l.record != nil:
		l.buf = l.record.append(l.buf, i, limit)
		return
	case l.inner != nil:
		v = l.inner.value(i, limit)
	default:
		v = l.children[0].value(i)
	}
	if int64(len(l.buf)+len(v)) > limit {
		fail(rows.ErrLimit)
	}
	l.buf = append(binary.LittleEndian.AppendUint32(l.buf, uint32(len(v))), v...)
}
