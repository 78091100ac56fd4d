package arrowbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// array holds the values of a node in one record batch.
type array struct {
	*layout
	n        int64
	valid    []byte // one bit per value; nil: no value is null
	offsets  []byte
	data     []byte   // values, views or dictionary numbers
	others   [][]byte // buffers to which the views refer
	children []*array
	dict     *dictionary // dictionary with the values for the numbers in data
}

var (
	errBuffer = errors.New("buffers of a record batch contradict each other")
	// In a field that is not nullable, Arrow allows nulls only where the enclosing struct is
	// null.
	errUnmasked = errors.New("it has a null, but its schema does not allow nulls")
	errNull     = errors.New("a list of fixed-size values has a null element, which is not supported: write the file again with a value for each null, or with null for the whole list")
)

// batchReader returns the nodes and buffers of a record batch in their stored order.
type batchReader struct {
	body    []byte
	nodes   []byte // remaining nodes, descriptions of buffers, and view counts
	buffers []byte
	views   []byte
	packed  int // codec of the buffers; -1: uncompressed
	unpack  *unpacker
	dicts   []*dictionary // dictionaries of the remaining dictionary columns
}

// newBatchReader returns a reader of a message's record batch t, which contains rows or the values
// of a dictionary. body is the message's complete body.
func newBatchReader(m *Message, t table, body []byte, u *unpacker) (*batchReader, int64) {
	r := &batchReader{body: body, nodes: t.vector(1, 16), buffers: t.vector(2, 16), views: t.vector(4, 8), packed: m.packed, unpack: u}
	if t.has(3) {
		c := t.table(3)
		if r.packed = int(c.u8(0, 0)); r.packed > packZstd || c.u8(1, 0) != 0 {
			fail(fmt.Errorf("it is compressed by codec %d; only LZ4 and zstd are supported", r.packed))
		}
	}
	n := t.i64(0)
	if t.missing() || n < 0 {
		fail(errMessage)
	}
	return r, n
}

// left reports whether there are unread nodes or buffers, which then belong to no column.
func (r *batchReader) left() bool { return len(r.nodes)+len(r.buffers)+len(r.views) > 0 }

// number removes a number from the start of b.
func number(b *[]byte) int64 {
	if len(*b) == 0 {
		fail(errBuffer)
	}
	n := int64(binary.LittleEndian.Uint64(*b))
	*b = (*b)[8:]
	return n
}

func (r *batchReader) node() (n, nulls int64) {
	n, nulls = number(&r.nodes), number(&r.nodes)
	if n < 0 || nulls < 0 || nulls > n || n > rows.MaxRow {
		fail(errBuffer)
	}
	return n, nulls
}

// buffer returns the next buffer after decompressing it.
func (r *batchReader) buffer() []byte {
	off, n := number(&r.buffers), number(&r.buffers)
	if off < 0 || n < 0 || off > int64(len(r.body)) || n > int64(len(r.body))-off {
		fail(errBuffer)
	}
	b := r.body[off : off+n]
	if r.packed < 0 || n == 0 {
		return b
	}
	if n < 8 {
		fail(errBuffer)
	}
	length := int64(binary.LittleEndian.Uint64(b))
	if length == -1 {
		return b[8:]
	}
	b, err := r.unpack.bytes(r.packed, b[8:], length)
	if err != nil {
		fail(err)
	}
	return b
}

// array reads the values of a node from the record batch.
func (r *batchReader) array(l *layout) *array {
	n, nulls := r.node()
	a := &array{layout: l, n: n}
	if l.form == formNull {
		return a
	}
	valid := r.buffer()
	if nulls > 0 {
		if a.valid = valid; int64(len(valid)) < (n+7)/8 {
			failIn(l.node, fmt.Errorf("%d nulls: %w", nulls, errBuffer))
		}
	}
	switch a.form {
	case formBytes, formLarge, formList, formLists:
		a.offsets = r.buffer()
	}
	switch a.form {
	case formFixed, formBits, formBytes, formLarge, formView, formCoded:
		a.data = r.buffer()
	}
	switch a.form {
	case formView:
		r.viewed(a)
	case formCoded:
		a.dict, r.dicts = r.dicts[0], r.dicts[1:]
	}
	for _, c := range a.layout.children {
		a.children = append(a.children, r.array(c))
	}
	a.check()
	return a
}

// viewed reads the buffers to which the views of an array refer.
func (r *batchReader) viewed(a *array) {
	n := number(&r.views)
	if n < 0 || n > int64(len(r.buffers)/16) {
		fail(errBuffer)
	}
	for range n {
		a.others = append(a.others, r.buffer())
	}
}

// check validates the buffer lengths against the number of values. Offsets and views are validated
// later, when they are read.
func (a *array) check() {
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
		failIn(a.node, errBuffer)
	}
}

func (a *array) null(i int64) bool {
	if a.form == formNull || a.valid != nil && a.valid[i/8]&(1<<(i%8)) == 0 {
		return true
	}
	if a.form != formCoded || !a.dict.nulls {
		return false
	}
	_, null := a.decoded(i)
	return null
}

// decoded returns the dictionary value of entry i.
func (a *array) decoded(i int64) (v []byte, null bool) {
	b := a.data[i<<a.width:]
	n := uint64(0)
	for k := range 1 << a.width {
		n |= uint64(b[k]) << (8 * k)
	}
	if a.signed && b[1<<a.width-1] >= 0x80 {
		n = math.MaxUint64 // no value has a negative number
	}
	k, ok := a.dict.find(n)
	if !ok {
		failIn(a.node, errPlace)
	}
	return a.dict.value(k)
}

// span returns the range of the elements of list i, or of the bytes of value i.
func (a *array) span(i int64) (from, to int64) {
	switch a.form {
	case formFixList:
		return i * int64(a.count), (i + 1) * int64(a.count)
	case formLarge, formLists:
		return int64(binary.LittleEndian.Uint64(a.offsets[8*i:])), int64(binary.LittleEndian.Uint64(a.offsets[8*i+8:]))
	}
	return int64(int32(binary.LittleEndian.Uint32(a.offsets[4*i:]))), int64(int32(binary.LittleEndian.Uint32(a.offsets[4*i+4:])))
}

// Encodings of booleans.
var (
	no  = []byte{0}
	yes = []byte{1}
)

// value returns the bytes of non-null value i of an array that is neither a list nor a struct.
func (a *array) value(i int64) []byte {
	switch a.form {
	case formFixed:
		size := int64(a.node.Size)
		return a.data[i*size : (i+1)*size]
	case formBits:
		if a.data[i/8]&(1<<(i%8)) != 0 {
			return yes
		}
		return no
	case formView:
		return a.view(a.data[16*i : 16*i+16])
	case formCoded:
		v, _ := a.decoded(i)
		return v
	}
	from, to := a.span(i)
	if from < 0 || to < from || to > int64(len(a.data)) {
		failIn(a.node, errBuffer)
	}
	return a.data[from:to]
}

// view returns the bytes of a view. Short values are stored inline, longer values in another
// buffer.
func (a *array) view(v []byte) []byte {
	n := int64(int32(binary.LittleEndian.Uint32(v)))
	if n >= 0 && n <= 12 {
		return v[4 : 4+n]
	}
	at, off := int64(int32(binary.LittleEndian.Uint32(v[8:]))), int64(int32(binary.LittleEndian.Uint32(v[12:])))
	if n < 0 || at < 0 || at >= int64(len(a.others)) || off < 0 || off > int64(len(a.others[at])) || n > int64(len(a.others[at]))-off {
		failIn(a.node, errBuffer)
	}
	return a.others[at][off : off+n]
}

// elements returns the validated range of the elements of list i.
func (a *array) elements(i int64) (from, to int64) {
	from, to = a.span(i)
	if from < 0 || to < from || to > a.children[0].n {
		failIn(a.node, errBuffer)
	}
	return from, to
}

// full reports whether none of the values [from, to) are null.
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
