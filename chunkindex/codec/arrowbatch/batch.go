package arrowbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// array is the values of a node in one record batch.
type array struct {
	*layout
	n        int64
	valid    []byte // a bit each; nil: no value is null
	offsets  []byte
	data     []byte   // or views
	others   [][]byte // buffers that views point into
	children []*array
	dict     *dictionary // whose numbers data are
}

var (
	errBuffer = errors.New("buffers of a record batch contradict each other")
	// Arrow lets a field that is not nullable have nulls where the struct around it is null, and nowhere else.
	errUnmasked = errors.New("null in a field that is not nullable")
	errNull     = errors.New("null inside a list of values of a fixed size, which rows have no place for: write the file again with the nulls filled, or with the list itself null")
)

// batchReader hands out the nodes and buffers of a record batch in their order.
type batchReader struct {
	t        table
	body     []byte
	nodes    int // where they lie, and how many are left
	nodesN   int
	buffers  int
	buffersN int
	views    int
	viewsN   int
	packed   int // -1: buffers are not compressed
	unpack   *unpacker
	dicts    []*dictionary // of the columns that are to come
}

// newBatchReader starts reading the record batch t of a message: rows, or the values of a dictionary. Its body is all of body.
func newBatchReader(m *Message, t table, body []byte, u *unpacker) (*batchReader, int64, error) {
	r := &batchReader{t: t, body: body, packed: m.packed, unpack: u}
	r.nodes, r.nodesN = t.vector(1, 16)
	r.buffers, r.buffersN = t.vector(2, 16)
	r.views, r.viewsN = t.vector(4, 8)
	if t.has(3) {
		c := t.table(3)
		if r.packed = int(c.u8(0, 0)); r.packed > packZstd || c.u8(1, 0) != 0 {
			return nil, 0, fmt.Errorf("it is compressed by codec %d, where LZ4 and zstd are read", r.packed)
		}
	}
	n := t.i64(0)
	if t.f == nil || t.f.bad || n < 0 {
		return nil, 0, errMessage
	}
	return r, n, nil
}

// left says whether there are nodes or buffers that no column has.
func (r *batchReader) left() bool { return r.nodesN > 0 || r.buffersN > 0 || r.viewsN > 0 }

func (r *batchReader) node() (n, nulls int64, err error) {
	if r.nodesN == 0 {
		return 0, 0, errBuffer
	}
	n, nulls = r.t.f.i64(r.nodes), r.t.f.i64(r.nodes+8)
	r.nodes, r.nodesN = r.nodes+16, r.nodesN-1
	if n < 0 || nulls < 0 || nulls > n || n > rows.MaxRow {
		return 0, 0, errBuffer
	}
	return n, nulls, nil
}

// buffer returns the next buffer, decompressed.
func (r *batchReader) buffer() ([]byte, error) {
	if r.buffersN == 0 {
		return nil, errBuffer
	}
	off, n := r.t.f.i64(r.buffers), r.t.f.i64(r.buffers+8)
	r.buffers, r.buffersN = r.buffers+16, r.buffersN-1
	if off < 0 || n < 0 || off > int64(len(r.body)) || n > int64(len(r.body))-off {
		return nil, errBuffer
	}
	b := r.body[off : off+n]
	if r.packed < 0 || n == 0 {
		return b, nil
	}
	if n < 8 {
		return nil, errBuffer
	}
	length := int64(binary.LittleEndian.Uint64(b))
	if length == -1 {
		return b[8:], nil
	}
	return r.unpack.bytes(r.packed, b[8:], length)
}

// array reads the array of a node.
func (r *batchReader) array(l *layout) (*array, error) {
	n, nulls, err := r.node()
	if err != nil {
		return nil, err
	}
	a := &array{layout: l, n: n}
	if l.form == formNull {
		return a, nil
	}
	valid, err := r.buffer()
	if err != nil {
		return nil, err
	}
	if nulls > 0 {
		if a.valid = valid; int64(len(valid)) < (n+7)/8 {
			return nil, fmt.Errorf("column %.100q: %d nulls: %w", l.node.Name, nulls, errBuffer)
		}
	}
	if err := r.values(a); err != nil {
		return nil, err
	}
	return a, a.check()
}

// values reads the buffers after the one of nulls, and the arrays of children.
func (r *batchReader) values(a *array) (err error) {
	switch a.form {
	case formBytes, formLarge, formList, formLists:
		if a.offsets, err = r.buffer(); err != nil {
			return err
		}
	}
	switch a.form {
	case formFixed, formBits, formBytes, formLarge, formView, formCoded:
		a.data, err = r.buffer()
	}
	if err == nil && a.form == formView {
		err = r.viewed(a)
	}
	if a.form == formCoded {
		a.dict, r.dicts = r.dicts[0], r.dicts[1:]
	}
	for _, c := range a.layout.children {
		if err != nil {
			return err
		}
		var child *array
		child, err = r.array(c)
		a.children = append(a.children, child)
	}
	return err
}

// viewed reads the buffers that the views of an array point into.
func (r *batchReader) viewed(a *array) error {
	if r.viewsN == 0 {
		return errBuffer
	}
	n := r.t.f.i64(r.views)
	r.views, r.viewsN = r.views+8, r.viewsN-1
	if n < 0 || n > int64(r.buffersN) {
		return errBuffer
	}
	for range n {
		b, err := r.buffer()
		if err != nil {
			return err
		}
		a.others = append(a.others, b)
	}
	return nil
}

// check holds the lengths of the buffers to the number of values. What offsets and views say is checked where they are read.
func (a *array) check() error {
	ok := true
	switch a.form {
	case formFixed:
		ok = int64(len(a.data))/int64(a.node.Size) >= a.n
	case formCoded:
		ok = int64(len(a.data))>>a.width >= a.n
	case formBits:
		ok = int64(len(a.data)) >= (a.n+7)/8
	case formBytes, formList:
		ok = a.n == 0 || int64(len(a.offsets)) >= 4*(a.n+1)
	case formLarge, formLists:
		ok = a.n == 0 || int64(len(a.offsets)) >= 8*(a.n+1)
	case formView:
		ok = int64(len(a.data)) >= 16*a.n
	case formFixList:
		ok = a.children[0].n == int64(a.count)*a.n
	case formStruct:
		for _, c := range a.children {
			ok = ok && c.n == a.n
		}
	}
	if !ok {
		return fmt.Errorf("column %.100q: %w", a.node.Name, errBuffer)
	}
	return nil
}

func (a *array) null(i int64) bool {
	if a.form == formNull || a.valid != nil && a.valid[i/8]&(1<<(i%8)) == 0 {
		return true
	}
	if a.form != formCoded || !a.dict.nulls {
		return false
	}
	_, null, err := a.decoded(i)
	return null && err == nil
}

// decoded returns the value that number i of a column with a dictionary stands for.
func (a *array) decoded(i int64) (v []byte, null bool, err error) {
	b := a.data[i<<a.width:]
	n := uint64(0)
	for k := range 1 << a.width {
		n |= uint64(b[k]) << (8 * k)
	}
	if a.signed && b[1<<a.width-1] >= 0x80 {
		n = math.MaxUint64 // no dictionary has a value for a number below 0
	}
	k, ok := a.dict.find(n)
	if !ok {
		return nil, false, fmt.Errorf("column %.100q: %w", a.node.Name, errPlace)
	}
	v, null = a.dict.value(k)
	return v, null, nil
}

// span returns where the elements of list i lie, or the bytes of value i.
func (a *array) span(i int64) (from, to int64) {
	switch a.form {
	case formFixList:
		return i * int64(a.count), (i + 1) * int64(a.count)
	case formLarge, formLists:
		return int64(binary.LittleEndian.Uint64(a.offsets[8*i:])), int64(binary.LittleEndian.Uint64(a.offsets[8*i+8:]))
	}
	return int64(int32(binary.LittleEndian.Uint32(a.offsets[4*i:]))), int64(int32(binary.LittleEndian.Uint32(a.offsets[4*i+4:])))
}

// bytes of booleans.
var (
	no  = []byte{0}
	yes = []byte{1}
)

// value returns the bytes of value i, which is none of a list or struct and is not null.
func (a *array) value(i int64) ([]byte, error) {
	switch a.form {
	case formFixed:
		size := int64(a.node.Size)
		return a.data[i*size : (i+1)*size], nil
	case formBits:
		if a.data[i/8]&(1<<(i%8)) != 0 {
			return yes, nil
		}
		return no, nil
	case formView:
		return a.view(a.data[16*i : 16*i+16])
	case formCoded:
		v, _, err := a.decoded(i)
		return v, err
	}
	from, to := a.span(i)
	if from < 0 || to < from || to > int64(len(a.data)) {
		return nil, fmt.Errorf("column %.100q: %w", a.node.Name, errBuffer)
	}
	return a.data[from:to], nil
}

// view returns what a view shows: its own bytes if they are few, or those of another buffer.
func (a *array) view(v []byte) ([]byte, error) {
	n := int64(int32(binary.LittleEndian.Uint32(v)))
	if n >= 0 && n <= 12 {
		return v[4 : 4+n], nil
	}
	at, off := int64(int32(binary.LittleEndian.Uint32(v[8:]))), int64(int32(binary.LittleEndian.Uint32(v[12:])))
	if n < 0 || at < 0 || at >= int64(len(a.others)) || off < 0 || off > int64(len(a.others[at])) || n > int64(len(a.others[at]))-off {
		return nil, fmt.Errorf("column %.100q: %w", a.node.Name, errBuffer)
	}
	return a.others[at][off : off+n], nil
}

// elements returns where the elements of list i lie, checked.
func (a *array) elements(i int64) (from, to int64, err error) {
	from, to = a.span(i)
	if from < 0 || to < from || to > a.children[0].n {
		return 0, 0, fmt.Errorf("column %.100q: %w", a.node.Name, errBuffer)
	}
	return from, to, nil
}

// full says whether none of some values is null.
func (a *array) full(from, to int64) bool {
	if a.form == formCoded && a.dict.nulls {
		for ; from < to; from++ {
			if a.null(from) {
				return false
			}
		}
		return true
	}
	if a.valid == nil {
		return a.form != formNull || from == to
	}
	n := 0
	for ; from < to && from%8 != 0; from++ {
		if a.null(from) {
			return false
		}
	}
	for ; to-from >= 8; from += 8 {
		n += 8 - bits.OnesCount8(a.valid[from/8])
	}
	for ; from < to; from++ {
		if a.null(from) {
			return false
		}
	}
	return n == 0
}
