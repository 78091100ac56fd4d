package arrow

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Builder collects the values of a column of rows whose bytes differ in Arrow. It first measures the
// values, and then stores them.
type Builder struct {
	*Column
	node      *rows.Node
	layout    *rows.Layout // fields of a struct inside a list
	convert   func(dst, value []byte) []byte
	children  []*Builder
	values    *Builder       // distinct values of a dictionary; nil: not a dictionary
	numbers   map[string]int // number of each value of a dictionary
	measured  int64          // bytes of the values
	measuring bool
}

// viewSize is the size of a view. It contains values of up to viewInline bytes.
const (
	viewSize   = 16
	viewInline = 12
)

// NewBuilder returns a builder for a node.
func NewBuilder(n *rows.Node) *Builder {
	b := newBuilder(n, typeOf(n))
	b.Name, b.Nullable = n.Name, n.Nullable
	if t := b.Type.values; t != nil {
		b.convert, b.values, b.numbers = nil, newBuilder(&rows.Node{Kind: n.Kind, Type: n.Type, Size: n.Size}, *t), map[string]int{}
		b.Dictionary = b.values.Column
	}
	for _, child := range n.Children {
		c := NewBuilder(child)
		if n.Kind == rows.List {
			c.Name = "item"
		}
		if n.Type == "map" {
			c.Name, c.Nullable = "entries", false
			c.children[0].Nullable = false
		}
		b.children, b.Children = append(b.children, c), append(b.Children, c.Column)
	}
	if b.Type.kind == typeFixedSizeList && n.Flat() {
		b.Type.width = b.Type.size() * b.Children[0].Type.width
	}
	return b
}

func newBuilder(n *rows.Node, t Type) *Builder {
	return &Builder{Column: &Column{Field: Field{Type: t}}, node: n, convert: conversion(n, t), measuring: true}
}

// Size returns the memory that the measured values need. For a dictionary, this is an upper bound.
func (b *Builder) Size() int64 {
	n := b.measured + 1 + 9*int64(b.Rows)
	for _, c := range b.children {
		n += c.Size()
	}
	if b.values != nil {
		n += 2*b.values.Size() + 64*int64(b.Rows) // also the keys of numbers
	}
	return n
}

// Measured ends the measurement. The same values must be added again.
func (b *Builder) Measured() {
	b.measuring = false
	if b.Values = make([]byte, 0, b.measured); b.Type.views() {
		b.Values, b.Data = make([]byte, 0, viewSize*b.Rows), b.Values
	}
	if b.Nullable {
		b.Column.Null = make([]bool, 0, b.Rows)
	}
	if b.Type.offsets() > 0 {
		b.Lengths = make([]uint32, 0, b.Rows)
	}
	b.Rows = 0
	for _, c := range b.children {
		c.Measured()
	}
	if b.values != nil {
		b.values.Measured()
	}
}

// Trim removes the bitmaps of columns without nulls.
func (b *Builder) Trim() {
	if !slices.Contains(b.Column.Null, true) {
		b.Column.Null = nil
	}
	for _, c := range b.children {
		c.Trim()
	}
}

// Add adds a value of a part.
func (b *Builder) Add(value []byte) error {
	r := &reader{b: value}
	r.value(b, len(value))
	if r.bad || len(r.b) > 0 {
		return ErrUnfit
	}
	return b.overflow()
}

// overflow returns an error if a dictionary has more values than numbers.
func (b *Builder) overflow() error {
	if b.values != nil {
		if bits := 8*b.Type.width - int(b.Type.params[1].n); bits < 32 && len(b.numbers) > 1<<bits {
			return fmt.Errorf("%w: it has more than %d different values in one batch, which its dictionary in the file cannot have", ErrUnfit, 1<<bits)
		}
	}
	for _, c := range b.children {
		if err := c.overflow(); err != nil {
			return err
		}
	}
	return nil
}

// Skip adds a null.
func (b *Builder) Skip() { b.add(nil, true, 0) }

// add adds the bytes of a value, or a list of n elements, which are added to its child.
func (b *Builder) add(value []byte, null bool, n int) {
	b.Rows++
	for i := 0; null && i < b.Type.size(); i++ {
		for _, c := range b.children {
			c.add(nil, true, 0)
		}
	}
	from := len(b.Values)
	switch {
	case b.measuring:
		b.measured += int64(max(b.Type.width, len(value)))
		if b.values != nil && !null {
			b.values.add(value, false, 0)
		}
		return
	case b.Type.kind == typeBool:
		b.addBit(!null && value[0] != 0)
	case null || !b.Type.stored():
		b.Values = b.Values[:from+b.zeros(null)]
	case b.values != nil:
		b.Values = append(b.Values, binary.LittleEndian.AppendUint64(nil, uint64(b.number(value)))[:b.Type.width]...)
	case b.Type.views():
		b.addView(value)
	case b.convert != nil:
		b.Values = b.convert(b.Values, value)
	default:
		b.Values = append(b.Values, value...)
	}
	if b.Nullable {
		b.Column.Null = append(b.Column.Null, null)
	}
	if b.Type.offsets() > 0 {
		b.Lengths = append(b.Lengths, uint32(n+len(b.Values)-from))
	}
}

// number returns the number of a value in the dictionary.
func (b *Builder) number(value []byte) int {
	k, ok := b.numbers[string(value)]
	if !ok {
		k = len(b.numbers)
		b.numbers[string(value)] = k
		b.values.add(value, false, 0)
	}
	return k
}

// addView adds a view of a value.
func (b *Builder) addView(value []byte) {
	b.Values = binary.LittleEndian.AppendUint32(b.Values, uint32(len(value)))
	if len(value) <= viewInline {
		b.Values = append(b.Values, value...)
		b.Values = append(b.Values, make([]byte, viewInline-len(value))...)
		return
	}
	b.Values = append(b.Values, value[:4]...)
	b.Values = binary.LittleEndian.AppendUint64(b.Values, uint64(len(b.Data))<<32)
	b.Data = append(b.Data, value...)
}

// zeros returns the size of a null.
func (b *Builder) zeros(null bool) int {
	if !null || !b.Type.stored() {
		return 0
	}
	return b.Type.width
}

// addBit adds the bit of the row that was counted last.
func (b *Builder) addBit(set bool) {
	bit := (b.Rows - 1) % 8
	if bit == 0 {
		b.Values = append(b.Values, 0)
	}
	if set {
		b.Values[len(b.Values)-1] |= 1 << bit
	}
}

// reader reads values of rows (docs/spec/rows.md).
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 4), 1<<10))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) length() int { return int(int32(binary.LittleEndian.Uint32(r.take(4)))) }

// value reads a value of n bytes.
func (r *reader) value(b *Builder, n int) {
	if b.node.Kind == rows.Fixed && n != b.node.Size {
		r.bad = true
		return
	}
	p := r.take(n)
	switch {
	case r.bad:
	case b.node.Kind == rows.List:
		in := &reader{b: p}
		n := in.list(b.children[0])
		b.add(nil, false, n)
		r.bad = in.bad || len(in.b) > 0 || b.Type.kind == typeFixedSizeList && n != b.Type.size()
	default:
		b.add(p, false, 0)
	}
}

// list reads the elements of a list, and returns their number.
func (r *reader) list(element *Builder) int {
	if size := element.node.Size; element.node.Kind == rows.Fixed {
		n := len(r.b) / size
		for range n {
			r.value(element, size)
		}
		return n
	}
	n := r.length()
	if n < 0 || n > 8*len(r.b) {
		r.bad = true
		return 0
	}
	nulls := r.take((n + 7) / 8)
	for i := range n {
		switch {
		case r.bad:
		case nulls[i/8]&(1<<(i%8)) != 0:
			element.add(nil, true, 0)
		case element.node.Kind == rows.Struct:
			r.row(element)
		default:
			r.value(element, r.length())
		}
	}
	return n
}

// row reads the fields of a struct inside a list.
func (r *reader) row(b *Builder) {
	if b.layout == nil {
		var err error
		if b.layout, err = rows.NewLayout(b.node.Children); err != nil {
			r.bad = true
			return
		}
	}
	f := fields{bitmap: r.take(b.layout.Bitmap())}
	n, err := b.layout.Lengths(f.bitmap)
	if r.bad = r.bad || err != nil; r.bad {
		return
	}
	f.lengths.b = r.take(n)
	f.read(r, b.children)
	b.add(nil, false, 0)
}

// fields reads the fields of a row.
type fields struct {
	bitmap  []byte
	bit     int
	lengths reader
}

func (f *fields) read(r *reader, all []*Builder) {
	for _, b := range all {
		null := false
		if b.node.Nullable {
			null = f.bitmap[f.bit/8]&(1<<(f.bit%8)) != 0
			f.bit++
		}
		switch {
		case null:
			b.add(nil, true, 0)
			f.bit += b.inside()
		case b.node.Kind == rows.Struct:
			f.read(r, b.children)
			b.add(nil, false, 0)
		case b.node.Kind == rows.Fixed:
			r.value(b, b.node.Size)
		default:
			r.value(b, f.lengths.length())
			r.bad = r.bad || f.lengths.bad
		}
	}
}

// inside returns the number of nullable nodes inside a struct.
func (b *Builder) inside() (n int) {
	if b.node.Kind != rows.Struct {
		return 0
	}
	for _, c := range b.children {
		if n += c.inside(); c.node.Nullable {
			n++
		}
	}
	return n
}

// littleEndian appends the low bytes of a signed integer with the given width.
func littleEndian(width int, bigEndian bool) func(dst, value []byte) []byte {
	return func(dst, value []byte) []byte {
		from := len(dst)
		dst = append(dst, value...)
		v := dst[from:]
		if bigEndian {
			slices.Reverse(v)
		}
		sign := byte(0)
		if len(v) > 0 && v[len(v)-1] >= 0x80 {
			sign = 0xff
		}
		for len(dst) < from+width {
			dst = append(dst, sign)
		}
		return dst[:from+width]
	}
}

// int96 appends a time in nanoseconds since 1970. The value is the nanoseconds of the day and the
// Julian day.
func int96(dst, value []byte) []byte {
	const epoch, day = 2_440_588, 86_400_000_000_000
	days := int64(int32(binary.LittleEndian.Uint32(value[8:]))) - epoch
	return binary.LittleEndian.AppendUint64(dst, binary.LittleEndian.Uint64(value)+uint64(days*day))
}
