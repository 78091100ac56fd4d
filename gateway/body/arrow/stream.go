package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const alignment = 8

// Field is the name and type of a column.
type Field struct {
	Name     string
	Type     Type
	Nullable bool
	Metadata []Pair
}

// Column has the lengths of a column's values. Null values have length 0, but null values of a
// fixed size are stored as zeros.
type Column struct {
	Lengths []uint32
	Null    []bool // null values; nil: none
}

// Writer holds all bytes of a stream except the values.
type Writer struct {
	head    []byte
	fields  []Field
	columns []Column
	bytes   []int64 // length of all values of each column
}

// Most returns an upper bound of the size of a stream without its values.
func Most(fields []Field, rows int) int64 {
	n := int64(1 << 10)
	for _, f := range fields {
		n += 512 + f.size() + 5*int64(rows)
	}
	return n
}

// size returns an upper bound of the length of a field's names and metadata.
func (f Field) size() int64 {
	n := int64(len(f.Name) + len(f.Type.zone) + len(f.Type.extension.Key) + len(f.Type.extension.Value))
	for _, p := range f.Metadata {
		n += int64(64 + len(p.Key) + len(p.Value))
	}
	return n
}

// ErrUnfit is wrapped by the error for a value whose length does not match its type.
var ErrUnfit = errors.New("value does not match its type")

// NewWriter plans a stream of one record batch. Columns must be smaller than 2 GiB.
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
				return nil, fmt.Errorf("column %.100q: %w: %d bytes", fields[i].Name, ErrUnfit, n)
			}
		}
		if w.bytes[i] > math.MaxInt32 {
			return nil, fmt.Errorf("column %.100q has %d bytes: Arrow requires less than 2 GiB", fields[i].Name, w.bytes[i])
		}
	}
	w.head = append(message(isSchema, 0, schema(fields)), message(isRecords, w.body(), w.records(rows))...)
	return w, nil
}

// Head returns the bytes before the first column: the schema and the description of the record
// batch.
func (w *Writer) Head() []byte { return w.head }

// Before returns the bytes before the values of column i: the null bitmap and, for values of
// variable length, the offsets.
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

// After returns the padding after the values of column i.
func (w *Writer) After(i int) []byte { return make([]byte, padded(w.bytes[i])-w.bytes[i]) }

// End returns the bytes after the last column.
func End() []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} }

// bitmap returns the size of the null bitmap.
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

// buffers returns the lengths of the buffers of column i in order. The buffers of a list's elements
// follow the list's own buffers.
func (w *Writer) buffers(i int) []int64 {
	c, t := w.columns[i], w.fields[i].Type
	all := []int64{c.bitmap()}
	if t.width == 0 {
		all = append(all, t.offsets(len(c.Lengths)))
	}
	if t.element != nil {
		all = append(all, 0) // elements are never null
	}
	return append(all, w.bytes[i])
}

// body returns the total length of all columns.
func (w *Writer) body() (n int64) {
	for i := range w.columns {
		for _, b := range w.buffers(i) {
			n += padded(b)
		}
	}
	return n
}
