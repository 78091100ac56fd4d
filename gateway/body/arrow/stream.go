package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const alignment = 8

// Field is a column's name and type.
type Field struct {
	Name     string
	Type     Type
	Nullable bool
	Metadata []Pair
}

// Column says how long the values of a column are. A value that is none has no length, but one of a fixed size is there
// as zeros.
type Column struct {
	Lengths []uint32
	Null    []bool // which are none; nil: all are there
}

// Writer knows a stream's bytes but for the values.
type Writer struct {
	head    []byte
	fields  []Field
	columns []Column
	bytes   []int64 // of the values of each column
}

// Most bounds the bytes that a stream of such fields takes beside its values.
func Most(fields []Field, rows int) int64 {
	n := int64(1 << 10)
	for _, f := range fields {
		n += 512 + f.size() + 5*int64(rows)
	}
	return n
}

// size bounds the bytes of the words of a field.
func (f Field) size() int64 {
	n := int64(len(f.Name) + len(f.Type.zone) + len(f.Type.extension.Key) + len(f.Type.extension.Value))
	for _, p := range f.Metadata {
		n += int64(64 + len(p.Key) + len(p.Value))
	}
	return n
}

// ErrUnfit is in the error for a value whose length is none of its type's.
var ErrUnfit = errors.New("a value that is not of its type")

// NewWriter plans a stream of one record batch. A column of 2 GiB or more has no place in one.
func NewWriter(rows int, fields []Field, columns []Column) (*Writer, error) {
	w := &Writer{fields: fields, columns: columns, bytes: make([]int64, len(columns))}
	for i, c := range columns {
		if width := fields[i].Type.width; width > 0 {
			w.bytes[i] = int64(width) * int64(rows)
		}
		for row, n := range c.Lengths {
			if fields[i].Type.width == 0 {
				w.bytes[i] += int64(n)
			}
			if null := c.Null != nil && c.Null[row]; !null && !fields[i].Type.Fits(n) {
				return nil, fmt.Errorf("column %.100q has %w of %d bytes", fields[i].Name, ErrUnfit, n)
			}
		}
		if w.bytes[i] > math.MaxInt32 {
			return nil, fmt.Errorf("column %.100q has %d bytes: Arrow takes less than 2 GiB", fields[i].Name, w.bytes[i])
		}
	}
	w.head = append(message(isSchema, 0, schema(fields)), message(isRecords, w.body(), w.records(rows))...)
	return w, nil
}

// Head returns what comes before the first column: the schema, and where the columns' values lie.
func (w *Writer) Head() []byte { return w.head }

// Before returns what comes before the values of column i: which are none, and where each begins if they have lengths of their own.
func (w *Writer) Before(i int) []byte {
	c, t := w.columns[i], w.fields[i].Type
	b := make([]byte, padded(c.bitmap()), padded(c.bitmap())+padded(t.offsets(len(c.Lengths))))
	if c.Null != nil {
		for row, null := range c.Null {
			if !null {
				b[row/8] |= 1 << (row % 8)
			}
		}
	}
	if t.width > 0 {
		return b
	}
	unit := uint32(1)
	if t.element != nil {
		unit = uint32(t.element.width)
	}
	at := uint32(0)
	b = binary.LittleEndian.AppendUint32(b, at)
	for _, n := range c.Lengths {
		at += n / unit
		b = binary.LittleEndian.AppendUint32(b, at)
	}
	return pad(b)
}

// After returns what comes after the values of column i.
func (w *Writer) After(i int) []byte { return make([]byte, padded(w.bytes[i])-w.bytes[i]) }

// End returns what comes after the last column.
func End() []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} }

// bitmap is the bytes that say which values are none.
func (c Column) bitmap() int64 {
	if c.Null == nil {
		return 0
	}
	return (int64(len(c.Null)) + 7) / 8
}

func (c Column) nulls() (n uint64) {
	for _, null := range c.Null {
		if null {
			n++
		}
	}
	return n
}

func padded(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

func pad(b []byte) []byte { return append(b, make([]byte, padded(int64(len(b)))-int64(len(b)))...) }

// buffers returns the lengths of the buffers of column i, in their order: those of the elements of a list after its own.
func (w *Writer) buffers(i int) []int64 {
	c, t := w.columns[i], w.fields[i].Type
	all := []int64{c.bitmap()}
	if t.width == 0 {
		all = append(all, t.offsets(len(c.Lengths)))
	}
	if t.element != nil {
		all = append(all, 0) // no element is none
	}
	return append(all, w.bytes[i])
}

// body is the length of all columns together.
func (w *Writer) body() (n int64) {
	for i := range w.columns {
		for _, b := range w.buffers(i) {
			n += padded(b)
		}
	}
	return n
}
