package rowgroup

import (
	"encoding/binary"
	"fmt"
	"math"
)

// source returns the values of a page in order. The bytes of a value stay valid until the row is
// written.
type source interface{ next() []byte }

// Encodings with the numbers that Parquet defines.
const (
	encPlain           = 0
	encPlainDictionary = 2
	encRLE             = 3
	encDelta           = 5
	encDeltaLength     = 6
	encDeltaBytes      = 7
	encRLEDictionary   = 8
	encSplit           = 9
)

// open returns the source of a page's values.
func (c *column) open(encoding int64, b []byte) source {
	switch physical := c.leaf.physical; {
	case encoding == encPlain && physical == physBoolean:
		return booleans(&hybrid{b: b, width: 1, packed: 8 * uint64(len(b))})
	case encoding == encPlain && physical == physBytes:
		return &plainBytes{b}
	case encoding == encPlain:
		return &plainFixed{b, c.leaf.size}
	case encoding == encPlainDictionary || encoding == encRLEDictionary:
		return c.openDictionary(b)
	case encoding == encRLE && physical == physBoolean:
		own, _ := cutLength(b)
		return booleans(newHybrid(own, 1))
	case encoding == encDelta && (physical == physInt32 || physical == physInt64):
		return &deltaInts{d: newDeltas(b), size: c.leaf.size}
	case encoding == encDeltaLength && physical == physBytes:
		return openDeltaLengths(b)
	case encoding == encDeltaBytes && (physical == physBytes || physical == physFixed):
		d := newDeltas(b)
		return &deltaBytes{prefixes: d, suffixes: openDeltaLengths(d.rest()), size: c.leaf.size}
	case encoding == encSplit && c.leaf.size > 1 && len(b)%c.leaf.size == 0:
		return &split{b: b, size: c.leaf.size, n: len(b) / c.leaf.size}
	case encoding == encSplit && c.leaf.size > 1:
		fail(errPage)
	}
	fail(fmt.Errorf("encoding %d of physical type %d is not supported", encoding, c.leaf.physical))
	return nil
}

type plainFixed struct {
	b    []byte
	size int
}

func (p *plainFixed) next() []byte { return p.run(1) }

// run returns the next n values concatenated.
func (p *plainFixed) run(n int) []byte {
	if n > len(p.b)/p.size {
		fail(errPage)
	}
	n *= p.size
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

type plainBytes struct{ b []byte }

func (p *plainBytes) next() []byte {
	if len(p.b) < 4 {
		fail(errPage)
	}
	n := int64(binary.LittleEndian.Uint32(p.b))
	if n > int64(len(p.b)-4) {
		fail(errPage)
	}
	v := p.b[4 : 4+n : 4+n]
	p.b = p.b[4+n:]
	return v
}

// booleans returns the source of booleans, as numbers of a dictionary of false and true.
func booleans(h *hybrid) source { return &places{h, &dictionary{b: []byte{0, 1}, size: 1, n: 2}} }

// dictionary holds the values to which pages refer by number.
type dictionary struct {
	b     []byte
	size  int      // size of a value; 0: variable, and views locates the values
	views []uint64 // for each value, the offset in the upper half and the length in the lower half
	n     int
}

// newDictionary parses a dictionary page of n values.
func newDictionary(l leaf, b []byte, n int64) *dictionary {
	if l.physical == physBoolean {
		fail(fmt.Errorf("dictionary of booleans: %w", errPage))
	}
	d := &dictionary{b: b, size: l.size, n: int(n)}
	if n < 0 || l.size > 0 && n > int64(len(b)/l.size) || l.size == 0 && n > int64(len(b)/4) || len(b) > math.MaxUint32 {
		fail(fmt.Errorf("dictionary: %w", errPage))
	}
	if l.size > 0 {
		return d
	}
	d.views = make([]uint64, n)
	rest := b
	for i := range d.views {
		var v []byte
		v, rest = cutLength(rest)
		d.views[i] = uint64(len(b)-len(rest)-len(v))<<32 | uint64(len(v))
	}
	return d
}

type places struct {
	h *hybrid
	d *dictionary
}

// openDictionary returns the source of a page of dictionary numbers.
func (c *column) openDictionary(b []byte) source {
	switch {
	case c.dict == nil:
		fail(fmt.Errorf("page requires a dictionary, but none precedes it"))
	case len(b) == 0: // the page contains only nulls
		return &plainBytes{}
	case b[0] > 32:
		fail(errPage)
	}
	return &places{newHybrid(b[1:], int(b[0])), c.dict}
}

func (p *places) next() []byte {
	i := p.h.next()
	if int64(i) >= int64(p.d.n) {
		p.d.outside(i)
	}
	if p.d.size > 0 {
		at := int(i) * p.d.size
		return p.d.b[at : at+p.d.size : at+p.d.size]
	}
	v := p.d.views[i]
	from, to := v>>32, v>>32+v&math.MaxUint32
	return p.d.b[from:to:to]
}

// read reads the numbers of the next values.
func (p *places) read(numbers []uint32) {
	h := p.h
	for i := range numbers {
		if h.at == h.n {
			h.fill()
		}
		k := h.buf[h.at]
		if int64(k) >= int64(p.d.n) {
			p.d.outside(k)
		}
		numbers[i] = k
		h.at++
	}
}

// outside fails because a number has no value.
func (d *dictionary) outside(i uint32) {
	fail(fmt.Errorf("value %d of a dictionary of %d: %w", i, d.n, errPage))
}

// arena allocates small pieces of memory. It never reuses them.
type arena []byte

func (a *arena) take(n int) []byte {
	if n > len(*a) {
		*a = make([]byte, max(n, 4<<10))
	}
	v := (*a)[:n:n]
	*a = (*a)[n:]
	return v
}

type deltaInts struct {
	d    *deltas
	size int
	mem  arena
}

func (s *deltaInts) next() []byte {
	b := s.mem.take(8)
	binary.LittleEndian.PutUint64(b, uint64(s.d.next()))
	return b[:s.size]
}

type deltaLengths struct {
	lengths *deltas
	b       []byte
}

func openDeltaLengths(b []byte) *deltaLengths {
	d := newDeltas(b)
	return &deltaLengths{d, d.rest()}
}

func (s *deltaLengths) next() []byte {
	n := s.lengths.next()
	if n < 0 || n > int64(len(s.b)) {
		fail(errPage)
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// deltaBytes reads values, each of which shares a prefix with the preceding value.
type deltaBytes struct {
	prefixes *deltas
	suffixes *deltaLengths
	last     []byte
	size     int // size of each value; 0: variable
	mem      arena
}

func (s *deltaBytes) next() []byte {
	n := s.prefixes.next()
	suffix := s.suffixes.next()
	if n < 0 || n > int64(len(s.last)) || s.size > 0 && int(n)+len(suffix) != s.size {
		fail(errPage)
	}
	if n == 0 {
		s.last = suffix
		return suffix
	}
	v := s.mem.take(int(n) + len(suffix))
	copy(v[copy(v, s.last[:n]):], suffix)
	s.last = v
	return v
}

// split reads values in the encoding BYTE_STREAM_SPLIT: the first bytes of all values, then the
// second bytes of all values, and so on.
type split struct {
	b    []byte
	size int
	n    int
	at   int
	mem  arena
}

func (s *split) next() []byte {
	if s.at >= s.n {
		fail(errPage)
	}
	v := s.mem.take(s.size)
	for i := range v {
		v[i] = s.b[i*s.n+s.at]
	}
	s.at++
	return v
}
