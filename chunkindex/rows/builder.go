package rows

import (
	"encoding/binary"
	"errors"
)

// ErrLimit is returned for a row, or for rows, that are longer than the caller allows.
var ErrLimit = errors.New("rows are longer than allowed")

// Builder puts one row together, value by value in the order of the layout's steps. The values are not copied before the row is
// appended to others, so until then they must not change.
type Builder struct {
	layout  *Layout
	bitmap  []byte
	lengths []byte
	pieces  [][]byte
	size    int64 // of the pieces
}

// NewBuilder returns a Builder of rows of a layout.
func NewBuilder(l *Layout) *Builder { return &Builder{layout: l, bitmap: make([]byte, l.Bitmap())} }

// Reset begins a row in which nothing is null.
func (b *Builder) Reset() {
	clear(b.bitmap)
	clear(b.pieces)
	b.lengths, b.pieces, b.size = b.lengths[:0], b.pieces[:0], 0
}

// Null marks the node of a step as null, and every node inside it.
func (b *Builder) Null(step int) {
	for i := step; i <= step+b.layout.Steps[step].Skip; i++ {
		if bit := b.layout.Steps[i].Bit; bit >= 0 {
			b.bitmap[bit/8] |= 1 << (bit % 8)
		}
	}
}

// Fixed adds a value of a fixed size.
func (b *Builder) Fixed(p []byte) {
	b.pieces = append(b.pieces, p)
	b.size += int64(len(p))
}

// Variable adds a value with a length of its own.
func (b *Builder) Variable(p []byte) {
	b.lengths = binary.LittleEndian.AppendUint32(b.lengths, uint32(len(p)))
	b.Fixed(p)
}

// Size returns the length of the row.
func (b *Builder) Size() int64 { return int64(len(b.bitmap)+len(b.lengths)) + b.size }

// Append appends the row to dst, which must not become longer than limit.
func (b *Builder) Append(dst []byte, limit int64) ([]byte, error) {
	if n := b.Size(); n > MaxRow || int64(len(dst))+n > limit {
		return dst, ErrLimit
	}
	dst = append(append(dst, b.bitmap...), b.lengths...)
	for _, p := range b.pieces {
		dst = append(dst, p...)
	}
	return dst, nil
}

// SealList puts the head of a nested list before its elements, which are dst from start on: their number, and a bitmap of those
// that are null and of which nothing is there.
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
