package rowgroup

import "math"

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
func newDeltas(b []byte) *deltas {
	size, minis, n := cutUvarint(&b), cutUvarint(&b), cutUvarint(&b)
	if minis == 0 || size == 0 || size > 1<<30 || size%minis != 0 || size/minis%8 != 0 || n > math.MaxInt32 {
		fail(errPage)
	}
	first := cutVarint(&b)
	return &deltas{b: b, value: first, left: n, first: true, mini: size / minis, minis: minis}
}

// cutVarint removes a signed number from the start of b.
func cutVarint(b *[]byte) int64 {
	v := cutUvarint(b)
	return int64(v>>1) ^ -int64(v&1)
}

// next returns the next integer.
func (d *deltas) next() int64 {
	if d.left == 0 {
		fail(errPage)
	}
	d.left--
	if d.first {
		d.first = false
		return d.value
	}
	if d.inMini == 0 {
		d.miniblock()
	}
	d.inMini--
	d.value += d.smallest
	if d.width > 0 {
		d.value += int64(unpack(d.bits, d.at, d.width) & mask(d.width))
		d.at += uint64(d.width)
	}
	return d.value
}

// miniblock starts the next miniblock. It first reads a block header if necessary.
func (d *deltas) miniblock() {
	if len(d.widths) == 0 {
		if d.smallest = cutVarint(&d.b); d.minis > uint64(len(d.b)) {
			fail(errPage)
		}
		d.widths, d.b = d.b[:d.minis], d.b[d.minis:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	length := d.mini / 8 * uint64(d.width)
	if d.width > 64 || length > uint64(len(d.b)) {
		fail(errPage)
	}
	d.bits, d.b = d.b[:length], d.b[length:]
	d.at, d.inMini = 0, d.mini
}

// rest returns the bytes after the sequence. To find them, it parses only the bit widths.
func (d *deltas) rest() []byte {
	ahead := *d
	if ahead.left > 0 && ahead.first {
		ahead.left--
	}
	for ahead.left > 0 {
		ahead.miniblock()
		ahead.left -= min(ahead.left, ahead.mini)
	}
	return ahead.b
}
