package rowgroup

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// source returns the values of a page in order. The bytes of a value stay valid until the row is
// written.
type source interface{ next() ([]byte, error) }

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
func (c *column) open(encoding int64, b []byte) (source, error) {
	switch physical := c.leaf.physical; {
	case encoding == encPlain && physical == physBoolean:
		return booleans(&hybrid{b: b, width: 1, packed: 8 * uint64(len(b))}), nil
	case encoding == encPlain && physical == physBytes:
		return &plainBytes{b}, nil
	case encoding == encPlain:
		return &plainFixed{b, c.leaf.size}, nil
	case encoding == encPlainDictionary || encoding == encRLEDictionary:
		return c.openDictionary(b)
	case encoding == encRLE && physical == physBoolean:
		return openBooleans(b)
	case encoding == encDelta && (physical == physInt32 || physical == physInt64):
		d, err := newDeltas(b)
		return &deltaInts{d: d, size: c.leaf.size}, err
	case encoding == encDeltaLength && physical == physBytes:
		return openDeltaLengths(b)
	case encoding == encDeltaBytes && (physical == physBytes || physical == physFixed):
		return openDeltaBytes(b, c.leaf.size)
	case encoding == encSplit && c.leaf.size > 1:
		return newSplit(b, c.leaf.size)
	}
	return nil, fmt.Errorf("encoding %d of physical type %d is not supported", encoding, c.leaf.physical)
}

type plainFixed struct {
	b    []byte
	size int
}

func (p *plainFixed) next() ([]byte, error) { return p.run(1) }

// run returns the next n values concatenated.
func (p *plainFixed) run(n int) ([]byte, error) {
	if n > len(p.b)/p.size {
		return nil, errPage
	}
	n *= p.size
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v, nil
}

type plainBytes struct{ b []byte }

func (p *plainBytes) next() ([]byte, error) {
	if len(p.b) < 4 {
		return nil, errPage
	}
	n := int64(binary.LittleEndian.Uint32(p.b))
	if n > int64(len(p.b)-4) {
		return nil, errPage
	}
	v := p.b[4 : 4+n : 4+n]
	p.b = p.b[4+n:]
	return v, nil
}

// booleans returns the source of booleans, as numbers of a dictionary of false and true.
func booleans(h *hybrid) source { return &places{h, &dictionary{b: []byte{0, 1}, size: 1, n: 2}} }

// openBooleans returns the source of booleans whose encoded bytes are preceded by their length.
func openBooleans(b []byte) (source, error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, errPage
	}
	return booleans(newHybrid(b[4:4+binary.LittleEndian.Uint32(b)], 1)), nil
}

// dictionary holds the values to which pages refer by number.
type dictionary struct {
	b     []byte
	size  int      // size of a value; 0: variable, and views locates the values
	views []uint64 // for each value, the offset in the upper half and the length in the lower half
	n     int
}

// newDictionary parses a dictionary page of n values.
func newDictionary(l leaf, b []byte, n int64) (*dictionary, error) {
	if l.physical == physBoolean {
		return nil, fmt.Errorf("dictionary of booleans: %w", errPage)
	}
	d := &dictionary{b: b, size: l.size, n: int(n)}
	if n < 0 || l.size > 0 && n > int64(len(b)/l.size) || l.size == 0 && n > int64(len(b)/4) || len(b) > math.MaxUint32 {
		return nil, fmt.Errorf("dictionary: %w", errPage)
	}
	if l.size > 0 {
		return d, nil
	}
	d.views = make([]uint64, n)
	off := uint64(0)
	for i := range d.views {
		if uint64(len(b))-off < 4 {
			return nil, fmt.Errorf("dictionary: %w", errPage)
		}
		length := uint64(binary.LittleEndian.Uint32(b[off:]))
		off += 4
		if length > uint64(len(b))-off {
			return nil, fmt.Errorf("dictionary: %w", errPage)
		}
		d.views[i] = off<<32 | length
		off += length
	}
	return d, nil
}

type places struct {
	h *hybrid
	d *dictionary
}

// openDictionary returns the source of a page of dictionary numbers.
func (c *column) openDictionary(b []byte) (source, error) {
	if c.dict == nil {
		return nil, fmt.Errorf("page requires a dictionary, but none precedes it")
	}
	if len(b) == 0 { // the page contains only nulls
		return &plainBytes{}, nil
	}
	if b[0] > 32 {
		return nil, errPage
	}
	return &places{newHybrid(b[1:], int(b[0])), c.dict}, nil
}

func (p *places) next() ([]byte, error) {
	i, err := p.h.next()
	if err != nil || int64(i) >= int64(p.d.n) {
		return nil, cmp.Or(err, p.d.outside(i))
	}
	if p.d.size > 0 {
		at := int(i) * p.d.size
		return p.d.b[at : at+p.d.size : at+p.d.size], nil
	}
	v := p.d.views[i]
	from, to := v>>32, v>>32+v&math.MaxUint32
	return p.d.b[from:to:to], nil
}

// read reads the numbers of the next values.
func (p *places) read(numbers []uint32) error {
	h := p.h
	for i := range numbers {
		if h.at == h.n {
			if err := h.fill(); err != nil {
				return err
			}
		}
		k := h.buf[h.at]
		if int64(k) >= int64(p.d.n) {
			return p.d.outside(k)
		}
		numbers[i] = k
		h.at++
	}
	return nil
}

// outside returns the error for a number without a value.
func (d *dictionary) outside(i uint32) error {
	return fmt.Errorf("value %d of a dictionary of %d: %w", i, d.n, errPage)
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

func (s *deltaInts) next() ([]byte, error) {
	v, err := s.d.next()
	if err != nil {
		return nil, err
	}
	b := s.mem.take(8)
	binary.LittleEndian.PutUint64(b, uint64(v))
	return b[:s.size], nil
}

type deltaLengths struct {
	lengths *deltas
	b       []byte
}

func openDeltaLengths(b []byte) (*deltaLengths, error) {
	d, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	rest, err := d.rest()
	return &deltaLengths{d, rest}, err
}

func (s *deltaLengths) next() ([]byte, error) {
	n, err := s.lengths.next()
	if err != nil || n < 0 || n > int64(len(s.b)) {
		return nil, errPage
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v, nil
}

// deltaBytes reads values, each of which shares a prefix with the preceding value.
type deltaBytes struct {
	prefixes *deltas
	suffixes *deltaLengths
	last     []byte
	size     int // size of each value; 0: variable
	mem      arena
}

func openDeltaBytes(b []byte, size int) (source, error) {
	d, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	rest, err := d.rest()
	if err != nil {
		return nil, err
	}
	s, err := openDeltaLengths(rest)
	return &deltaBytes{prefixes: d, suffixes: s, size: size}, err
}

func (s *deltaBytes) next() ([]byte, error) {
	n, err := s.prefixes.next()
	if err != nil || n < 0 || n > int64(len(s.last)) {
		return nil, errPage
	}
	suffix, err := s.suffixes.next()
	if err != nil || s.size > 0 && int(n)+len(suffix) != s.size {
		return nil, errPage
	}
	if n == 0 {
		s.last = suffix
		return suffix, nil
	}
	v := s.mem.take(int(n) + len(suffix))
	copy(v[copy(v, s.last[:n]):], suffix)
	s.last = v
	return v, nil
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

func newSplit(b []byte, size int) (source, error) {
	if len(b)%size != 0 {
		return nil, errPage
	}
	return &split{b: b, size: size, n: len(b) / size}, nil
}

func (s *split) next() ([]byte, error) {
	if s.at >= s.n {
		return nil, errPage
	}
	v := s.mem.take(s.size)
	for i := range v {
		v[i] = s.b[i*s.n+s.at]
	}
	s.at++
	return v, nil
}

// width returns the number of bits of a level whose maximum is most.
func width(most int) int { return bits.Len(uint(most)) }
