package rowgroup

import (
	"encoding/binary"
	"errors"
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

// next returns the next value. At the end of the bytes it returns an error, even if the page's
// header claims more values.
func (h *hybrid) next() (uint32, error) {
	if h.at == h.n {
		if err := h.fill(); err != nil {
			return 0, err
		}
	}
	h.at++
	return h.buf[h.at-1], nil
}

func (h *hybrid) fill() error {
	for h.run == 0 && h.packed == 0 {
		if err := h.header(); err != nil {
			return err
		}
	}
	h.at = 0
	if h.run > 0 {
		h.n = int(min(h.run, batch))
		h.run -= uint64(h.n)
		for i := range h.buf[:h.n] {
			h.buf[i] = h.value
		}
		return nil
	}
	h.n = int(min(h.packed, batch))
	h.packed -= uint64(h.n)
	for i := range h.buf[:h.n] {
		h.buf[i] = uint32(unpack(h.b, h.bit, h.width))
		h.bit += uint64(h.width)
	}
	if h.packed == 0 {
		h.b = h.b[(h.bit+7)/8:]
	}
	return nil
}

// header starts the next run.
func (h *hybrid) header() error {
	v, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errPage
	}
	h.b = h.b[n:]
	if v&1 == 0 {
		bytes := (h.width + 7) / 8
		if len(h.b) < bytes {
			return errPage
		}
		h.run, h.value = v>>1, 0
		for i, x := range h.b[:bytes] {
			h.value |= uint32(x) << (8 * i)
		}
		h.b = h.b[bytes:]
		if h.width < 32 && h.value>>h.width != 0 {
			return errPage
		}
		return nil
	}
	h.bit, h.packed = 0, v>>1
	if h.packed > 1<<40 {
		return errPage
	}
	h.packed *= 8
	if h.width > 0 { // writers may truncate the padding of the last run
		h.packed = min(h.packed, uint64(len(h.b))*8/uint64(h.width))
		if h.packed == 0 {
			return errPage
		}
	}
	return nil
}

// unpack reads a number of width bits, at most 64, at a bit offset, lowest bit first. The number
// must be within b.
func unpack(b []byte, bit uint64, width int) uint64 {
	at, shift := bit/8, bit%8
	if rest := b[min(at, uint64(len(b))):]; len(rest) >= 9 {
		v := binary.LittleEndian.Uint64(rest) >> shift
		if shift > 0 {
			v |= uint64(rest[8]) << (64 - shift)
		}
		return v & mask(width)
	}
	var v uint64
	for i := range uint64(width) {
		p := bit + i
		v |= uint64(b[p/8]>>(p%8)&1) << i
	}
	return v
}

func mask(width int) uint64 {
	if width >= 64 {
		return ^uint64(0)
	}
	return 1<<width - 1
}
