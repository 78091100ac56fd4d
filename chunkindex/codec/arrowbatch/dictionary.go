package arrowbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
)

// Limits of dictionaries.
const (
	// MaxDictionary limits the total bytes of a file's dictionary values, and the stored length
	// of each dictionary, because a scan holds them in memory.
	MaxDictionary = 64 << 20
	// maxUsed limits the bytes of the values that one record batch uses, including their
	// numbers, because the index stores them.
	maxUsed = 32 << 20
)

// noValue is a flag in an end offset; it marks a null value.
const noValue = 1 << 31

// dictionary maps the numbers in a column to values. Its fields are encoded like chunk parameters.
type dictionary struct {
	places []byte // numbers of the values, ascending, as one u32 each; nil: value k has number k
	ends   []byte // end of each value in values, as one u32 each
	values []byte
	nulls  bool // at least one value is null

	used []uint64 // one bit per value, set if the current record batch uses the value; nil: not tracked
}

// errValues explains how to write a column without an unsupported dictionary.
const errValues = "write the values themselves (in pyarrow, column.cast(column.type.value_type))"

// ErrDictionary is the error for dictionaries that are too large.
var ErrDictionary = fmt.Errorf("the dictionaries of the file have more than %d bytes in total: for the column with most values, %s", MaxDictionary, errValues)

var (
	errPlace     = errors.New("it has an index that is not in its dictionary")
	errNoColumn  = errors.New("the dictionary belongs to no column of the schema")
	errMissing   = errors.New("its dictionary does not come before the record batch")
	errNoFirst   = errors.New("it continues a dictionary that does not precede it")
	errReplaced  = errors.New("a column has two dictionaries, which only a stream may have")
	errManyValue = fmt.Errorf("its rows use more than %d bytes of dictionary values, which the index would store: write the file again in smaller record batches, or for the column with most values, %s", maxUsed, errValues)
)

func (d *dictionary) len() int { return len(d.ends) / 4 }

// find returns the index of the value with number n.
func (d *dictionary) find(n uint64) (k int, ok bool) {
	k = int(min(n, math.MaxInt32))
	if k >= d.len() || d.places != nil && d.place(k) != n {
		if d.places == nil {
			return 0, false
		}
		k = sort.Search(min(k, d.len()), func(i int) bool { return d.place(i) >= n }) // numbers ascend, so value k has a number of k or higher
		if k >= d.len() || d.place(k) != n {
			return 0, false
		}
	}
	if d.used != nil {
		d.used[k/64] |= 1 << (k % 64)
	}
	return k, true
}

func (d *dictionary) place(k int) uint64 {
	if d.places == nil {
		return uint64(k)
	}
	return uint64(binary.LittleEndian.Uint32(d.places[4*k:]))
}

// value returns value k.
func (d *dictionary) value(k int) (v []byte, null bool) {
	end, begin := binary.LittleEndian.Uint32(d.ends[4*k:]), uint32(0)
	if k > 0 {
		begin = binary.LittleEndian.Uint32(d.ends[4*k-4:]) &^ noValue
	}
	return d.values[begin : end&^noValue], end&noValue != 0
}

// put appends a value. The caller limits the number of values.
func (d *dictionary) put(v []byte, null bool) {
	d.values = append(d.values, v...)
	end := uint32(len(d.values))
	if null {
		d.nulls, end = true, end|noValue
	}
	d.ends = binary.LittleEndian.AppendUint32(d.ends, end)
}

// params appends the values that the record batch uses, encoded like chunk parameters.
func (d *dictionary) params(b []byte) []byte {
	kept := dictionary{}
	for k := range d.len() {
		if d.used[k/64]&(1<<(k%64)) != 0 {
			kept.places = binary.LittleEndian.AppendUint32(kept.places, uint32(k))
			kept.put(d.value(k))
		}
	}
	b = binary.AppendUvarint(b, uint64(kept.len()))
	return append(append(append(b, kept.places...), kept.ends...), kept.values...)
}

// dictionary decodes the dictionary of a column, as written by dictionary.params.
func (r *paramsReader) dictionary(l *layout) *dictionary {
	n := r.number(uint64(len(r.b) / 8))
	d := &dictionary{places: r.take(4 * n), ends: r.take(4 * n)}
	place, begin := int64(-1), uint32(0)
	for k := range n {
		next, end := int64(d.place(k)), binary.LittleEndian.Uint32(d.ends[4*k:])
		null := end&noValue != 0
		end &^= noValue
		size := end - begin
		if next <= place || end < begin || null && (size > 0 || !l.node.Nullable) || !null && l.node.Size > 0 && int(size) != l.node.Size {
			fail(errParams)
		}
		d.nulls = d.nulls || null
		place, begin = next, end
	}
	d.values = r.take(int(begin))
	return d
}

// Dictionary reads a complete dictionary message, which contains a dictionary or additional values
// for one. If replaces is set, the message may replace an earlier dictionary of the same columns,
// as streams do. Files do not.
func (d *Decoder) Dictionary(stored []byte, replaces bool) (err error) {
	defer catch(&err)
	m, body, err := split(stored)
	if err != nil {
		return err
	}
	if m.Kind != KindDictionary {
		return errMessage
	}
	id, more := m.header.i64(0), m.header.u8(2, 0) != 0
	columns := d.schema.encoded(id)
	if len(columns) == 0 {
		return errNoColumn
	}
	d.unpack.next()
	r, n := newBatchReader(m, m.header.table(1), body, &d.unpack)
	a := r.array(columns[0].values)
	if a.n != n || r.left() {
		return errBuffer
	}
	if err := d.keep(id, a, more, replaces); err != nil {
		return fmt.Errorf("column %.100q: %w", columns[0].node.Name, err)
	}
	return nil
}

// keep stores a dictionary, or appends additional values to a stored one.
func (d *Decoder) keep(id int64, values *array, more, replaces bool) error {
	was := d.dictionaries[id]
	switch {
	case more && was == nil:
		return errNoFirst
	case !more && was != nil && !replaces:
		return errReplaced
	case !more:
		if was != nil {
			d.held -= was.bytes()
		}
		was = &dictionary{}
		d.dictionaries[id] = was
	}
	return d.extend(was, values)
}

func (d *dictionary) bytes() int64 { return int64(len(d.ends) + len(d.values)) }

// extend appends values to a dictionary.
func (d *Decoder) extend(to *dictionary, a *array) error {
	if d.held+4*a.n > MaxDictionary {
		return ErrDictionary
	}
	for i := range a.n {
		var v []byte
		null := a.null(i)
		if !null {
			v = a.value(i)
		}
		if d.held += 4 + int64(len(v)); d.held > MaxDictionary {
			return ErrDictionary
		}
		to.put(v, null)
	}
	return nil
}

// encoded returns the columns that use a dictionary.
func (s *Schema) encoded(id int64) (all []*layout) {
	for _, l := range s.coded {
		if l.id == id {
			all = append(all, l)
		}
	}
	return all
}

// counted returns the dictionaries of all dictionary columns in column order. They track the values
// that a record batch uses, beginning with none.
func (d *Decoder) counted() ([]*dictionary, error) {
	var all []*dictionary
	for _, l := range d.schema.coded {
		one := d.dictionaries[l.id]
		if one == nil {
			return nil, fmt.Errorf("column %.100q: %w", l.node.Name, errMissing)
		}
		one.used = make([]uint64, (one.len()+63)/64)
		all = append(all, one)
	}
	return all, nil
}

// Used returns the dictionary values that the record batch uses, for Batch.Dictionaries. All rows
// of the batch must have been read.
func (d *Decoder) Used() ([]byte, error) {
	var b []byte
	for _, one := range d.dicts {
		if b = one.params(b); len(b) > maxUsed {
			return nil, errManyValue
		}
	}
	return b, nil
}
