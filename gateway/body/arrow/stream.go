package arrow

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Numbers of the format: https://github.com/apache/arrow/tree/main/format, Message.fbs and Schema.fbs.
const (
	continuation = 0xffffffff
	metadataV5   = 4
	isSchema     = 1
	isRecords    = 3
	typeBinary   = 4
	typeUTF8     = 5
	alignment    = 8
)

// Field is a column's name and type.
type Field struct {
	Name     string
	Text     bool // utf8, else binary
	Nullable bool
}

// Column says how long the values of a column are.
type Column struct {
	Lengths []uint32
	Null    []bool // which are none; nil: all are there
}

// Writer knows a stream's bytes but for the values.
type Writer struct {
	head    []byte
	columns []Column
	bytes   []int64 // of the values of each column
}

// Most bounds the bytes that a stream of such fields takes beside its values.
func Most(fields []Field, rows int) int64 {
	n := int64(1 << 10)
	for _, f := range fields {
		n += 256 + int64(len(f.Name)) + 5*int64(rows)
	}
	return n
}

// NewWriter plans a stream of one record batch. A column of 2 GiB or more has no place in one.
func NewWriter(rows int, fields []Field, columns []Column) (*Writer, error) {
	w := &Writer{columns: columns, bytes: make([]int64, len(columns))}
	for i, c := range columns {
		for _, n := range c.Lengths {
			w.bytes[i] += int64(n)
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

// Before returns what comes before the values of column i: which are none, and where each begins.
func (w *Writer) Before(i int) []byte {
	c := w.columns[i]
	b := make([]byte, padded(int64(c.bitmap())), padded(int64(c.bitmap()))+padded(4*int64(len(c.Lengths)+1)))
	if c.Null != nil {
		for row, null := range c.Null {
			if !null {
				b[row/8] |= 1 << (row % 8)
			}
		}
	}
	at := uint32(0)
	b = binary.LittleEndian.AppendUint32(b, at)
	for _, n := range c.Lengths {
		at += n
		b = binary.LittleEndian.AppendUint32(b, at)
	}
	return pad(b)
}

// After returns what comes after the values of column i.
func (w *Writer) After(i int) []byte { return make([]byte, padded(w.bytes[i])-w.bytes[i]) }

// End returns what comes after the last column.
func End() []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} }

func (c Column) bitmap() int {
	if c.Null == nil {
		return 0
	}
	return (len(c.Null) + 7) / 8
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

// body is the length of all columns together.
func (w *Writer) body() (n int64) {
	for i, c := range w.columns {
		n += padded(int64(c.bitmap())) + padded(4*int64(len(c.Lengths)+1)) + padded(w.bytes[i])
	}
	return n
}

// message wraps what write puts behind the reference that it is given.
func message(kind uint64, body int64, write func(f *flat, reference int)) []byte {
	f := &flat{b: make([]byte, 4)}
	start, at := f.table(value{2, metadataV5}, value{1, kind}, value{4, 0}, value{8, uint64(body)})
	f.refer(0, start)
	write(f, at[2])
	f.b = pad(f.b)
	b := binary.LittleEndian.AppendUint32(nil, continuation)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.b)))
	return append(b, f.b...)
}

func schema(fields []Field) func(f *flat, reference int) {
	return func(f *flat, reference int) {
		start, at := f.table(value{2, 0}, value{4, 0})
		f.refer(reference, start)
		list := f.vector(len(fields), 4)
		f.refer(at[1], list)
		f.b = append(f.b, make([]byte, 4*len(fields))...)
		for i, c := range fields {
			kind, nullable := uint64(typeBinary), uint64(0)
			if c.Text {
				kind = typeUTF8
			}
			if c.Nullable {
				nullable = 1
			}
			// name, nullable, the type's kind, the type, dictionary, children
			start, at := f.table(value{4, 0}, value{1, nullable}, value{1, kind}, value{4, 0}, value{}, value{4, 0})
			f.refer(list+4+4*i, start)
			f.refer(at[0], f.text(c.Name))
			none, _ := f.table() // a type without parameters
			f.refer(at[3], none)
			f.refer(at[5], f.vector(0, 4))
		}
	}
}

// records describes the record batch: of each column how many values it has and are none, and where its three buffers lie.
func (w *Writer) records(rows int) func(f *flat, reference int) {
	return func(f *flat, reference int) {
		start, at := f.table(value{8, uint64(rows)}, value{4, 0}, value{4, 0})
		f.refer(reference, start)
		f.refer(at[1], f.vector(len(w.columns), 8))
		for _, c := range w.columns {
			f.number(value{8, uint64(rows)})
			f.number(value{8, c.nulls()})
		}
		f.refer(at[2], f.vector(3*len(w.columns), 8))
		offset := int64(0)
		for i, c := range w.columns {
			for _, n := range []int64{int64(c.bitmap()), 4 * int64(len(c.Lengths)+1), w.bytes[i]} {
				f.number(value{8, uint64(offset)})
				f.number(value{8, uint64(n)})
				offset += padded(n)
			}
		}
	}
}
