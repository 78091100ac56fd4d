package arrow

import "encoding/binary"

// flatbuffer is a FlatBuffers buffer that is written from front to back: an object is written after
// the objects that refer to it.
type flatbuffer struct {
	b            []byte
	dictionaries uint64 // number of dictionaries that are described
}

// value is one entry of a table. A zero size omits it.
type value struct {
	size int // 1, 2, 4 or 8 bytes
	n    uint64
}

// align appends zero bytes until the position, plus skip, is a multiple of n.
func (f *flatbuffer) align(n, skip int) {
	for (len(f.b)+skip)%n != 0 {
		f.b = append(f.b, 0)
	}
}

func (f *flatbuffer) number(v value) (at int) {
	f.align(v.size, 0)
	at = len(f.b)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v.n)
	f.b = append(f.b, b[:v.size]...)
	return at
}

// table writes a table with its vtable and returns the positions of its entries. Entries of four
// bytes may be references, which refer sets later.
func (f *flatbuffer) table(entries ...value) (start int, at []int) {
	f.align(2, 0)
	list := len(f.b)
	f.b = append(f.b, make([]byte, 4+2*len(entries))...)
	f.align(4, 0)
	start = len(f.b)
	f.number(value{4, uint64(start - list)})
	at = make([]int, len(entries))
	for i, v := range entries {
		if v.size == 0 {
			continue
		}
		at[i] = f.number(v)
		binary.LittleEndian.PutUint16(f.b[list+4+2*i:], uint16(at[i]-start))
	}
	binary.LittleEndian.PutUint16(f.b[list:], uint16(4+2*len(entries)))
	binary.LittleEndian.PutUint16(f.b[list+2:], uint16(len(f.b)-start))
	return start, at
}

// refer sets the reference at a position to target.
func (f *flatbuffer) refer(at, target int) {
	binary.LittleEndian.PutUint32(f.b[at:], uint32(target-at))
}

// vector starts a vector of n entries with the given alignment. The caller appends the entries.
func (f *flatbuffer) vector(n, align int) (start int) {
	f.align(4, 0)
	f.align(max(align, 4), 4)
	return f.number(value{4, uint64(n)})
}

// text writes a string with a terminating zero byte.
func (f *flatbuffer) text(s string) (start int) {
	start = f.vector(len(s), 1)
	f.b = append(append(f.b, s...), 0)
	return start
}
