package rowgroup

import (
	"encoding/binary"
	"math"
)

// deltas reads the integers of a DELTA_BINARY_PACKED sequence in order.
type deltas struct {
	b        []byte // unread bytes; they begin with a block or with the next miniblock's values
	left     uint64 // unread values
	first    bool   // the next value is the first one
	value    int64
	mini     uint64 // number of values in a miniblock
	minis    uint64 // number of miniblocks in a block
	smallest int64
	widths   []byte // bit widths of the block's remaining miniblocks
	bits     []byte // packed values of the current miniblock
	width    int
	at       uint64 // bit offset in bits
	inMini   uint64 // number of unread values in the current miniblock
}

// newDeltas parses the header of a sequence.
func newDeltas(b []byte) (*deltas, error) {
	var head [3]uint64 // number of values in a block, of miniblocks in a block, and of all values
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errPage
		}
		head[i], b = v, b[n:]
	}
	first, n := binary.Varint(b)
	if n <= 0 {
		return nil, errPage
	}
	size, minis := head[0], head[1]
	if minis == 0 || size == 0 || size > 1<<30 || size%minis != 0 || size/minis%8 != 0 || head[2] > math.MaxInt32 {
		return nil, errPage
	}
	return &deltas{b: b[n:], left: head[2], first: true, value: first, mini: size / minis, minis: minis}, nil
}

// next returns the next integer.
func (d *deltas) next() (int64, error) {
	if d.left == 0 {
		return 0, errPage
	}
	d.left--
	if d.first {
		d.first = false
		return d.value, nil
	}
	if d.inMini == 0 {
		if err := d.miniblock(); err != nil {
			return 0, err
		}
	}
	d.inMini--
	d.value += d.smallest
	if d.width > 0 {
		d.value += int64(unpack(d.bits, d.at, d.width) & mask(d.width))
		d.at += uint64(d.width)
	}
	return d.value, nil
}

// miniblock starts the next miniblock. It first reads a block header if necessary.
func (d *deltas) miniblock() error {
	if len(d.widths) == 0 {
		v, n := binary.Varint(d.b)
		if n <= 0 || d.minis > uint64(len(d.b)-n) {
			return errPage
		}
		d.smallest, d.widths, d.b = v, d.b[n:n+int(d.minis)], d.b[n+int(d.minis):]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	length := d.mini / 8 * uint64(d.width)
	if d.width > 64 || length > uint64(len(d.b)) {
		return errPage
	}
	d.bits, d.b = d.b[:length], d.b[length:]
	d.at, d.inMini = 0, d.mini
	return nil
}

// rest returns the bytes after the sequence. To find them, it parses only the bit widths.
func (d *deltas) rest() ([]byte, error) {
	ahead := *d
	if ahead.left > 0 && ahead.first {
		ahead.left--
	}
	for ahead.left > 0 {
		if err := ahead.miniblock(); err != nil {
			return nil, err
		}
		ahead.left -= min(ahead.left, ahead.mini)
	}
	return ahead.b, nil
}
