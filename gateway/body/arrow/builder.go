package arrow

import (
	"encoding/binary"
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
	measured  int64 // bytes of the values
	measuring bool
}

// Stored reports whether the bytes of a node's values are those of Arrow, or a list of such values.
func Stored(n *rows.Node, parquet bool) bool {
	if n.Flat() {
		n = n.Children[0]
	}
	t, convert := typeOf(n, parquet)
	return len(n.Children) == 0 && convert == nil && t.kind != typeNull
}

// NewBuilder returns a builder for a node. parquet says that the types are those of Parquet files.
func NewBuilder(n *rows.Node, parquet bool) *Builder {
	b := &Builder{Column: &Column{}, node: n, measuring: true}
	b.Name, b.Nullable = n.Name, n.Nullable
	b.Type, b.convert = typeOf(n, parquet)
	for _, child := range n.Children {
		c := NewBuilder(child, parquet)
		if n.Kind == rows.List {
			c.Name = "item"
		}
		if n.Type == "map" {
			c.Name, c.Nullable = "entries", false
			c.children[0].Nullable = false
		}
		b.children, b.Children = append(b.children, c), append(b.Children, c.Column)
	}
	return b
}

// Size returns the memory that the measured values need.
func (b *Builder) Size() int64 {
	n := b.measured + 1 + 5*int64(b.Rows)
	for _, c := range b.children {
		n += c.Size()
	}
	return n
}

// Measured ends the measurement. The same values must be added again.
func (b *Builder) Measured() {
	b.measuring = false
	b.Values = make([]byte, 0, b.measured)
	if b.Nullable {
		b.Column.Null = make([]bool, 0, b.Rows)
	}
	if b.Type.offsets() {
		b.Lengths = make([]uint32, 0, b.Rows)
	}
	b.Rows = 0
	for _, c := range b.children {
		c.Measured()
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
	return nil
}

// Skip adds a null.
func (b *Builder) Skip() { b.add(nil, true, 0) }

// add adds the bytes of a value, or a list of n elements, which are added to its child.
func (b *Builder) add(value []byte, null bool, n int) {
	if b.Rows++; null && b.node.Kind == rows.Struct {
		for _, c := range b.children {
			c.add(nil, true, 0)
		}
	}
	from := len(b.Values)
	switch {
	case b.measuring:
		b.measured += int64(max(b.Type.width, len(value)))
		return
	case b.Type.kind == typeBool:
		b.addBit(!null && value[0] != 0)
	case null || !b.Type.values():
		b.Values = b.Values[:from+b.zeros(null)]
	case b.convert != nil:
		b.Values = b.convert(b.Values, value)
	default:
		b.Values = append(b.Values, value...)
	}
	if b.Nullable {
		b.Column.Null = append(b.Column.Null, null)
	}
	if b.Type.offsets() {
		b.Lengths = append(b.Lengths, uint32(n+len(b.Values)-from))
	}
}

// zeros returns the size of a null.
func (b *Builder) zeros(null bool) int {
	if !null || !b.Type.values() {
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
		b.add(nil, false, in.list(b.children[0]))
		r.bad = in.bad || len(in.b) > 0
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
