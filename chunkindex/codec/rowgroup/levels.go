package rowgroup

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// errPage is the error for a page whose bytes do not match its header.
var errPage = errors.New("page is malformed")

// batch is the number of levels or dictionary numbers that are unpacked at a time.
const batch = 256

// hybrid reads values in Parquet's hybrid encoding of RLE runs and bit-packed runs. It unpacks them
// in batches.
type hybrid struct {
	b      []byte
	width  int
	run    uint64 // number of unread values in a run of one repeated value
	value  uint32
	packed uint64 // number of unread values in a bit-packed run
	bit    uint64 // bit offset of the next packed value in b

	buf [batch]uint32
	at  int
	n   int
}

func newHybrid(b []byte, width int) *hybrid { return &hybrid{b: b, width: width} }

// next returns the next value. At the end of the bytes it fails, even if the page's
// header claims more values.
func (h *hybrid) next() uint32 {
	if h.at == h.n {
		h.fill()
	}
	h.at++
	return h.buf[h.at-1]
}

// gap is a null entry.
type gap struct{ row, def uint16 }

// readGaps reads the definition levels of the next n entries, which must be in the page.
func (c *column) readGaps(n int) {
	h, most := c.def, c.most.def
	for row, k := 0, 0; row < n; row += k {
		if h.at == h.n {
			h.start()
		}
		level := h.value
		switch {
		case h.at == h.n && h.run > 0:
			k = int(min(h.run, uint64(n-row)))
			h.run -= uint64(k)
		case h.at == h.n && h.width == 1:
			k, level = int(min(64, h.packed, uint64(n-row))), 1
			for zeros := ^unpack(h.b, h.bit, k) & mask(k); zeros != 0; zeros &= zeros - 1 {
				c.gaps = append(c.gaps, gap{uint16(row + bits.TrailingZeros64(zeros)), 0})
			}
			h.unpacked(k)
		default:
			level, k = h.next(), 1
		}
		if int(level) > most {
			fail(errLevel)
		}
		for i := row; i < row+k && int(level) < most; i++ {
			c.gaps = append(c.gaps, gap{uint16(i), uint16(level)})
		}
	}
}

// unpacked consumes packed values.
func (h *hybrid) unpacked(n int) {
	h.bit += uint64(n) * uint64(h.width)
	h.packed -= uint64(n)
	if h.packed == 0 {
		h.b = h.b[(h.bit+7)/8:]
	}
}

// start makes the current run one with unread values.
func (h *hybrid) start() {
	for h.run == 0 && h.packed == 0 {
		h.header()
	}
}

// fill unpacks the next values of a run.
func (h *hybrid) fill() {
	h.start()
	h.at, h.n = 0, int(min(h.run+h.packed, batch))
	if h.run > 0 {
		h.run -= uint64(h.n)
		for i := range h.buf[:h.n] {
			h.buf[i] = h.value
		}
		return
	}
	for i := range h.buf[:h.n] {
		h.buf[i] = uint32(unpack(h.b, h.bit+uint64(i*h.width), h.width) & mask(h.width))
	}
	h.unpacked(h.n)
}

// header starts the next run.
func (h *hybrid) header() {
	v := cutUvarint(&h.b)
	if v&1 == 0 {
		bytes := (h.width + 7) / 8
		if len(h.b) < bytes {
			fail(errPage)
		}
		h.run, h.value = v>>1, 0
		for i, x := range h.b[:bytes] {
			h.value |= uint32(x) << (8 * i)
		}
		h.b = h.b[bytes:]
		if h.width < 32 && h.value>>h.width != 0 {
			fail(errPage)
		}
		return
	}
	h.bit, h.packed = 0, v>>1
	if h.packed > 1<<40 {
		fail(errPage)
	}
	h.packed *= 8
	if h.width > 0 { // writers may truncate the padding of the last run
		h.packed = min(h.packed, uint64(len(h.b))*8/uint64(h.width))
		if h.packed == 0 {
			fail(errPage)
		}
	}
}

// cutUvarint removes a number from the start of b.
func cutUvarint(b *[]byte) uint64 {
	v, n := binary.Uvarint(*b)
	if n <= 0 {
		fail(errPage)
	}
	*b = (*b)[n:]
	return v
}

// unpack reads a number of width bits, at most 64, at a bit offset, lowest bit first. The number
// must be within b. The caller must mask the bits above it.
func unpack(b []byte, bit uint64, width int) uint64 {
	at := bit / 8
	if at+9 > uint64(len(b)) {
		return unpackEnd(b, bit, width)
	}
	return binary.LittleEndian.Uint64(b[at:])>>(bit%8) | uint64(b[at+8])<<(64-bit%8)
}

// unpackEnd is unpack at the end of b.
func unpackEnd(b []byte, bit uint64, width int) (v uint64) {
	for i := range uint64(width) {
		p := bit + i
		v |= uint64(b[p/8]>>(p%8)&1) << i
	}
	return v
}

func mask(width int) uint64 { return 1<<uint(width) - 1 }
