package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

const alignment = 8

// Field is the name and type of a column.
type Field struct {
	Name     string
	Type     Type
	Nullable bool
	Metadata []Pair
}

// Column is a column, or the elements or fields inside one, with the sizes of its values. A column
// has all values of the batch, also those inside nulls.
type Column struct {
	Field
	Rows     int
	Lengths  []uint32  // for texts and byte strings: bytes of each value; for lists and maps: elements
	Null     []bool    // null values, which have length 0 or a fixed size; nil: none
	Values   []byte    // values, unless the caller sends them from elsewhere
	Data     []byte    // bytes to which views refer
	Children []*Column // fields of a struct, elements of a list, entries of a map

	Dictionary *Column // distinct values, to which the values refer by number; nil: no dictionary
	size       int64   // length of the values
}

// NewColumn returns a column without values.
func NewColumn(f Field) *Column {
	c := &Column{Field: f}
	if e := f.Type.element; e != nil {
		c.Children = []*Column{{Field: Field{Name: "item", Type: *e}}}
	}
	return c
}

// ErrUnfit is wrapped by the error for a value whose length does not match its type.
var ErrUnfit = errors.New("value does not match its type")

// SetLengths sets the stored lengths of the values. For a list these are the bytes of the elements,
// which all have one size.
func (c *Column) SetLengths(lengths []uint32, null []bool) error {
	c.Rows, c.Lengths, c.Null = len(lengths), nil, null
	if c.Type.kind == typeStruct {
		return nil
	}
	for row, n := range lengths {
		if (null == nil || !null[row]) && !c.fits(n) {
			return fmt.Errorf("column %.100q: %w: %d bytes", c.Name, ErrUnfit, n)
		}
	}
	if c.Type.offsets() > 0 {
		c.Lengths = lengths
	}
	element := c.Holder()
	if element == nil || element == c {
		return nil
	}
	if element.Rows = c.Rows * (c.Type.width / element.Type.width); c.Type.offsets() > 0 {
		for row, n := range lengths {
			lengths[row] = n / uint32(element.Type.width)
			element.Rows += int(lengths[row])
		}
	}
	return nil
}

// Holder returns the column with the bytes of the values: that of the elements of a list, or c. It is
// nil for a struct.
func (c *Column) Holder() *Column {
	switch c.Type.kind {
	case typeStruct:
		return nil
	case typeList, typeLargeList, typeFixedSizeList:
		return c.Children[0]
	}
	return c
}

// fits reports whether a value can have the given stored length.
func (c *Column) fits(length uint32) bool {
	switch {
	case c.Type.width > 0 || c.Type.kind == typeFixedSizeList:
		return int64(length) == int64(c.Type.width)
	case c.Type.kind == typeList || c.Type.kind == typeLargeList:
		return int64(length)%int64(c.Children[0].Type.width) == 0
	}
	return true
}

// preorder appends columns and those inside them to dst.
func preorder(dst, columns []*Column) []*Column {
	for _, c := range columns {
		dst = preorder(append(dst, c), c.Children)
	}
	return dst
}

// Writer holds all bytes of a stream except the values.
type Writer struct {
	head []byte
	all  []*Column
}

// Most returns an upper bound of the size of a stream without the values, and without the lists and
// structs inside lists.
func Most(columns []*Column, rows int) int64 {
	n := int64(1 << 10)
	for _, c := range preorder(nil, columns) {
		n += 1<<10 + c.names() + 9*int64(rows)
	}
	return n
}

// names returns an upper bound of the length of a field's names and metadata.
func (f Field) names() int64 {
	n := int64(len(f.Name) + len(f.Type.zone) + len(f.Type.extension.Key) + len(f.Type.extension.Value))
	for _, p := range f.Metadata {
		n += int64(64 + len(p.Key) + len(p.Value))
	}
	return n
}

// NewWriter plans a stream of one record batch, with the dictionaries before it. Columns must be
// smaller than 2 GiB.
func NewWriter(rows int, columns []*Column) (*Writer, error) {
	w := &Writer{head: message(isSchema, 0, schema(columns)), all: preorder(nil, columns)}
	dictionaries := uint64(0)
	for _, c := range w.all {
		if err := c.measure(); err != nil {
			return nil, err
		}
		d := c.Dictionary
		if d == nil {
			continue
		}
		if err := d.measure(); err != nil {
			return nil, err
		}
		one := []*Column{d}
		w.head = append(w.head, message(isDictionary, bodyOf(one), dictionary(dictionaries, records(d.Rows, one)))...)
		w.head = slices.Concat(w.head, d.Before(), d.Values, d.After())
		dictionaries++
	}
	w.head = append(w.head, message(isRecords, bodyOf(w.all), records(rows, w.all))...)
	return w, nil
}

// measure sets the length of the values.
func (c *Column) measure() error {
	c.size = c.bytes()
	if n := max(c.size, int64(c.Rows), int64(len(c.Data))); n > math.MaxInt32 {
		return fmt.Errorf("column %.100q has %d bytes or values: Arrow requires less than 2 GiB", c.Name, n)
	}
	return nil
}

// bodyOf returns the length of all buffers of columns.
func bodyOf(columns []*Column) (sum int64) {
	for _, c := range columns {
		for _, n := range c.buffers() {
			sum += padded(n)
		}
	}
	return sum
}

// Columns returns all columns in the order of their values in the stream: each before those inside
// it.
func (w *Writer) Columns() []*Column { return w.all }

// Head returns the bytes before the first column: the schema, the dictionaries and the description
// of the record batch.
func (w *Writer) Head() []byte { return w.head }

// Before returns the bytes before the values: the null bitmap and, for values of variable length,
// the offsets.
func (c *Column) Before() []byte {
	b := make([]byte, padded(c.bitmap()), padded(c.bitmap())+padded(c.offsets()))
	if c.bitmap() > 0 {
		for row, null := range c.Null {
			if !null {
				b[row/8] |= 1 << (row % 8)
			}
		}
	}
	if c.offsets() == 0 {
		return b
	}
	at, size := uint64(0), c.Type.offsets()
	for row := range c.Rows + 1 {
		b = binary.LittleEndian.AppendUint64(b, at)[:int64(len(b))+size]
		if row < c.Rows {
			at += uint64(c.Lengths[row])
		}
	}
	return pad(b)
}

// After returns the bytes after the values: padding, and the bytes to which views refer.
func (c *Column) After() []byte {
	return append(make([]byte, padded(c.size)-c.size), pad(c.Data)...)
}

// End returns the bytes after the last column.
func End() []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} }

// bitmap returns the size of the null bitmap.
func (c *Column) bitmap() int64 {
	if c.Type.kind == typeNull {
		return 0
	}
	return (int64(len(c.Null)) + 7) / 8
}

// offsets returns the size of the offsets.
func (c *Column) offsets() int64 {
	if c.Type.offsets() == 0 {
		return 0
	}
	return c.Type.offsets() * int64(c.Rows+1)
}

// bytes returns the size of the values.
func (c *Column) bytes() (n int64) {
	switch {
	case c.Type.kind == typeBool:
		return (int64(c.Rows) + 7) / 8
	case !c.Type.stored():
		return 0
	case c.Type.width > 0:
		return int64(c.Type.width) * int64(c.Rows)
	}
	for _, length := range c.Lengths {
		n += int64(length)
	}
	return n
}

func (c *Column) nulls() (n uint64) {
	if c.Type.kind == typeNull {
		return uint64(c.Rows)
	}
	for _, null := range c.Null {
		if null {
			n++
		}
	}
	return n
}

func padded(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

func pad(b []byte) []byte { return append(b, make([]byte, padded(int64(len(b)))-int64(len(b)))...) }

// buffers returns the lengths of the buffers in order.
func (c *Column) buffers() (all []int64) {
	if c.Type.kind != typeNull {
		all = append(all, c.bitmap())
	}
	if c.Type.offsets() > 0 {
		all = append(all, c.offsets())
	}
	if c.Type.stored() {
		all = append(all, c.size)
	}
	if c.Type.views() {
		all = append(all, int64(len(c.Data)))
	}
	return all
}
