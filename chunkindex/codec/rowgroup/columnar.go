package rowgroup

import (
	"encoding/binary"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// columnar decodes rows without lists. It decodes many rows at a time, column by column, which is
// several times as fast as record.
type columnar struct {
	d         *Decoder
	bitmap    int      // length of the null bitmap
	fixed     int      // length of a row without values of variable size, if no value is null
	at        []int    // for each row, its length, and then the offset of its next value
	heads     []int    // for each row, the offset of its next length
	numbers   []uint32 // dictionary numbers of a column
	values    []byte   // values of a column that are not contiguous in its page
	ascending []uint32 // 0, 1, 2 and so on
}

// Limits of the number of rows at a time. The memory of a column stays within columnMemory, and the
// memory that columns share within columnarMemory.
const (
	maxRows        = 2 * batch
	maxVariable    = batch / 4 // number of rows with values of variable size
	maxValues      = 4 << 10   // length of a column's values of fixed size
	columnarMemory = 16 << 10
)

// newColumnar returns nil if the decoder's rows contain lists or very long values of fixed size.
func newColumnar(d *Decoder) *columnar {
	t := &columnar{d: d, bitmap: d.row.layout.Bitmap()}
	t.fixed = t.bitmap
	n := maxRows
	for _, c := range d.columns {
		most := maxVariable
		if size := c.leaf.size; size > 0 {
			t.fixed += size
			most = maxValues / size
		}
		n = min(n, most)
	}
	if n == 0 || len(d.lists) > 0 {
		return nil
	}
	t.at, t.heads, t.numbers = make([]int, n), make([]int, n), make([]uint32, n)
	for i := range n {
		t.ascending = append(t.ascending, uint32(i))
	}
	return t
}

// next appends the next rows to dst, which must have room for limit bytes.
func (t *columnar) next(dst []byte, limit int64) []byte {
	n := t.begin()
	t.d.left -= int64(n)
	dst = dst[:t.place(n, len(dst), int(limit))]
	t.write(dst, n)
	return dst
}

// begin reads the levels of the next rows, up to the end of a page. It returns the number of rows.
func (t *columnar) begin() int {
	n := int(min(t.d.left, int64(len(t.at))))
	for _, c := range t.d.columns {
		c.mem.reading = c.index
		if !c.start() {
			c.fail(errRagged)
		}
		n = int(min(int64(n), c.left))
		if _, ok := c.src.(*deltaBytes); ok {
			n = 1 // the source allocates values
		}
	}
	for _, c := range t.d.columns {
		c.mem.reading = c.index
		c.left -= int64(n)
		c.gaps = c.gaps[:0]
		if c.def != nil {
			c.readGaps(n)
		}
	}
	for _, s := range t.d.row.steps {
		for _, c := range s.cols[1:] {
			if s.node.Nullable && !slices.Equal(s.absent(s.cols[0]), s.absent(c)) {
				c.fail(errLevels)
			}
		}
	}
	return n
}

// absent returns the gaps of a column at which the node of the step itself is null.
func (s *step) absent(c *column) []gap {
	return slices.DeleteFunc(slices.Clone(c.gaps), func(g gap) bool { return int(g.def) >= s.def })
}

// place locates n rows from offset at. It returns the offset after them, which must not exceed
// limit.
func (t *columnar) place(n, at, limit int) int {
	lengths, heads := t.at[:n], t.heads[:n]
	for i := range lengths {
		lengths[i], heads[i] = t.fixed, t.bitmap
	}
	for _, c := range t.d.columns {
		if c.leaf.size > 0 {
			for _, g := range c.gaps {
				lengths[g.row] -= c.leaf.size
			}
			continue
		}
		c.mem.reading = c.index
		c.views = append(c.views[:0], make([][]byte, n)...)
		for i, k := 0, 0; i < n; i++ {
			if k < len(c.gaps) && int(c.gaps[k].row) == i {
				k++
				continue
			}
			v := c.src.next()
			c.views[i] = v
			lengths[i], heads[i] = lengths[i]+4+len(v), heads[i]+4
		}
	}
	longest := 0
	for i, length := range lengths {
		lengths[i], heads[i] = at+heads[i], at+t.bitmap
		at, longest = at+length, max(longest, length)
	}
	if longest > rows.MaxRow || at > limit {
		fail(rows.ErrLimit)
	}
	return at
}

// write writes n rows, which place located.
func (t *columnar) write(dst []byte, n int) {
	heads, at := t.heads[:n], t.at[:n]
	for i := range t.bitmap {
		for _, head := range heads {
			dst[head-1-i] = 0
		}
	}
	for i, s := range t.d.row.steps {
		bit := t.d.row.layout.Steps[i].Bit
		for _, g := range s.cols[0].gaps {
			if bit >= 0 && int(g.def) < s.def {
				dst[heads[g.row]-t.bitmap+bit/8] |= 1 << (bit % 8)
			}
		}
	}
	before := 0 // length of the preceding columns of fixed size
	for _, c := range t.d.columns {
		if c.leaf.size == 0 {
			t.writeVariable(dst, c, before)
			continue
		}
		v, numbers := t.read(c, n-len(c.gaps))
		from := 0
		for _, g := range c.gaps {
			k := int(g.row) - from
			spread(dst, at[from:g.row], before, v, numbers[:k], c.leaf.size)
			from, numbers = int(g.row)+1, numbers[k:]
			at[g.row] -= c.leaf.size
		}
		spread(dst, at[from:], before, v, numbers, c.leaf.size)
		before += c.leaf.size
	}
}

// spread copies the values with these numbers to the offsets at, plus off, of dst. The values have a
// fixed size.
func spread(dst []byte, at []int, off int, v []byte, numbers []uint32, size int) {
	switch at = at[:len(numbers)]; size {
	case 4:
		for i, k := range numbers {
			p, q := at[i]+off, 4*int(k)
			*(*[4]byte)(dst[p : p+4]) = *(*[4]byte)(v[q : q+4])
		}
	case 8:
		for i, k := range numbers {
			p, q := at[i]+off, 8*int(k)
			*(*[8]byte)(dst[p : p+8]) = *(*[8]byte)(v[q : q+8])
		}
	default:
		for i, k := range numbers {
			copy(dst[at[i]+off:], v[int(k)*size:(int(k)+1)*size])
		}
	}
}

// read returns values of a column of fixed size, and the numbers that the next n values have among
// them.
func (t *columnar) read(c *column, n int) (v []byte, numbers []uint32) {
	c.mem.reading = c.index
	switch s := c.src.(type) {
	case *places:
		s.read(t.numbers[:n])
		return s.d.b, t.numbers[:n]
	case *plainFixed:
		return s.run(n), t.ascending[:n]
	}
	t.values = t.values[:0]
	for range n {
		t.values = append(t.values, c.src.next()...)
	}
	return t.values, t.ascending[:n]
}

func (t *columnar) writeVariable(dst []byte, c *column, before int) {
	for i, v := range c.views {
		if v != nil {
			binary.LittleEndian.PutUint32(dst[t.heads[i]:], uint32(len(v)))
			t.heads[i] += 4
			t.at[i] += copy(dst[t.at[i]+before:], v)
		}
	}
}
