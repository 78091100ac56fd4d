package rows

import (
	"encoding/binary"
	"errors"
)

// ErrLimit is the error for one or more rows that are longer than the caller's limit.
var ErrLimit = errors.New("rows are longer than the limit")

// Builder builds one row, value by value in the order of the layout's steps. Append copies the
// values, so the caller must not change them before that call.
type Builder struct {
	layout  *Layout
	bitmap  []byte
	lengths []byte
	pieces  [][]byte
	size    int64   // total length of the pieces
	mapped  *mapped // converts the rows; nil: they stay as they are
}

// NewBuilder returns a Builder for rows of a layout.
func NewBuilder(l *Layout) *Builder { return &Builder{layout: l, bitmap: make([]byte, l.Bitmap())} }

// Reset begins a new row without null values.
func (b *Builder) Reset() {
	clear(b.bitmap)
	clear(b.pieces)
	b.lengths, b.pieces, b.size = b.lengths[:0], b.pieces[:0], 0
}

// Null marks the node of a step as null, and every nullable node inside it.
func (b *Builder) Null(step int) {
	for i := step; i <= step+b.layout.Steps[step].Skip; i++ {
		if bit := b.layout.Steps[i].Bit; bit >= 0 {
			b.bitmap[bit/8] |= 1 << (bit % 8)
		}
	}
}

// Fixed adds a value of fixed size.
func (b *Builder) Fixed(p []byte) {
	b.pieces = append(b.pieces, p)
	b.size += int64(len(p))
}

// Variable adds a value of variable length.
func (b *Builder) Variable(p []byte) {
	b.lengths = binary.LittleEndian.AppendUint32(b.lengths, uint32(len(p)))
	b.Fixed(p)
}

// Size returns the length of the row.
func (b *Builder) Size() int64 { return int64(len(b.bitmap)+len(b.lengths)) + b.size }

// Append appends the row to dst. It returns ErrLimit if dst would become longer than limit.
func (b *Builder) Append(dst []byte, limit int64) ([]byte, error) {
	if b.mapped != nil {
		return b.convert().Append(dst, limit)
	}
	if n := b.Size(); n > MaxRow || int64(len(dst))+n > limit {
		return dst, ErrLimit
	}
	dst = append(append(dst, b.bitmap...), b.lengths...)
	for _, p := range b.pieces {
		dst = append(dst, p...)
	}
	return dst, nil
}

// SealList inserts the head of a nested list before its elements, which are dst[start:]. The head
// contains the number of elements and a bitmap of the null elements, which have no bytes.
func SealList(dst []byte, start int, nulls []bool) []byte {
	head := 4 + (len(nulls)+7)/8
	n := len(dst)
	for range head {
		dst = append(dst, 0)
	}
	copy(dst[start+head:], dst[start:n])
	clear(dst[start : start+head])
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(nulls)))
	for i, null := range nulls {
		if null {
			dst[start+4+i/8] |= 1 << (i % 8)
		}
	}
	return dst
}
