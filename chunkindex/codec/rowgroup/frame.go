package rowgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Frame contains the data from the file's footer that is needed to decode the stored bytes of one
// row group. Its stored form, Params, is frozen: docs/spec/index-format.md describes it.
type Frame struct {
	Fields []*rows.Node // fields of the schema; those that ParseParams returns have no names and types
	Rows   int64
	Gap    int64 // bytes between the preceding row group and this one
	Length int64 // stored bytes

	leaves []leaf
	chunks []place
}

// place is the location of a column chunk in a row group.
type place struct {
	codec  int64
	offset int64 // offset in the row group
	length int64
	values int64
}

// paramsVersion is the first byte of Params.
const paramsVersion = 1

// Bits of a node in Params: the kind in the lowest two bits, then nullable, then the physical type.
const (
	nodeLeaf     = 0
	nodeStruct   = 1
	nodeList     = 2
	nodeNullable = 4
	physicalAt   = 4
)

// Params returns the frame's encoding for the index.
func (f *Frame) Params() []byte {
	b := []byte{paramsVersion}
	for _, v := range []int64{f.Gap, f.Length, f.Rows, int64(len(f.Fields))} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	at := 0
	for _, n := range f.Fields {
		b = f.appendNode(b, n, &at)
	}
	for _, c := range f.chunks {
		for _, v := range []int64{c.codec, c.offset, c.length, c.values} {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	return b
}

func (f *Frame) appendNode(b []byte, n *rows.Node, leaf *int) []byte {
	head := byte(0)
	if n.Nullable {
		head |= nodeNullable
	}
	switch n.Kind {
	case rows.Struct:
		b = binary.AppendUvarint(append(b, head|nodeStruct), uint64(len(n.Children)))
	case rows.List:
		b = append(b, head|nodeList)
	default:
		l := f.leaves[*leaf]
		*leaf++
		b = append(b, head|nodeLeaf|byte(l.physical)<<physicalAt)
		if l.physical == physFixed {
			b = binary.AppendUvarint(b, uint64(l.size))
		}
	}
	for _, c := range n.Children {
		b = f.appendNode(b, c, leaf)
	}
	return b
}

// errParams is the error for parameters that no valid index contains.
var errParams = errors.New("parameters of a row group are malformed")

// paramsReader decodes bytes that Params wrote, without trusting them.
type paramsReader struct {
	b      []byte
	leaves []leaf
	nodes  int
}

func (r *paramsReader) number(most int64) int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(most) {
		fail(errParams)
	}
	r.b = r.b[n:]
	return int64(v)
}

// ParseParams decodes the result of Params.
func ParseParams(b []byte) (f *Frame, err error) {
	defer catch("", &err)
	if len(b) == 0 || b[0] != paramsVersion {
		fail(errParams)
	}
	r := &paramsReader{b: b[1:]}
	f = &Frame{Gap: r.number(maxOffset), Length: r.number(maxOffset), Rows: r.number(maxOffset)}
	for range r.number(rows.MaxNodes) {
		f.Fields = append(f.Fields, r.node(0))
	}
	f.leaves = r.leaves
	for range f.leaves {
		c := place{r.number(packRawLZ4), r.number(maxOffset), r.number(maxOffset), r.number(maxOffset)}
		if c.offset > f.Length || c.length > f.Length-c.offset {
			fail(errParams)
		}
		f.chunks = append(f.chunks, c)
	}
	if len(r.b) > 0 {
		fail(errParams)
	}
	return f, nil
}

// node decodes a node. It uses the node's number as its name, because rows do not contain names.
func (r *paramsReader) node(depth int) *rows.Node {
	n := &rows.Node{Name: strconv.Itoa(r.nodes)}
	if r.nodes++; len(r.b) == 0 || depth > rows.MaxDepth || r.nodes > rows.MaxNodes {
		fail(errParams)
	}
	head := r.b[0]
	r.b = r.b[1:]
	n.Nullable = head&nodeNullable != 0
	children := int64(0)
	switch head & 3 {
	case nodeStruct:
		n.Kind, children = rows.Struct, r.number(rows.MaxNodes)
	case nodeList:
		n.Kind, children = rows.List, 1
	case nodeLeaf:
		l := leaf{physical: int(head >> physicalAt)}
		n.Kind, l.size = rows.Fixed, sizeOf(l.physical)
		switch {
		case l.physical == physBytes:
			n.Kind = rows.Bytes
		case l.physical == physFixed:
			l.size = int(r.number(maxFixed))
		case l.size == 0:
			fail(errParams)
		}
		n.Size = l.size
		r.leaves = append(r.leaves, l)
	default:
		fail(errParams)
	}
	for range children {
		n.Children = append(n.Children, r.node(depth+1))
	}
	return n
}

// maxFixed limits the length of a FIXED_LEN_BYTE_ARRAY.
const maxFixed = 1 << 24

// sizeOf returns the size of the values of a physical type, or 0 if the size is variable.
func sizeOf(physical int) int {
	return map[int]int{physBoolean: 1, physInt32: 4, physInt64: 8, physInt96: 12, physFloat: 4, physDouble: 8}[physical]
}

// columnName returns the name of a column for errors: its quoted path, or its number if the path is
// unknown.
func columnName(path string, i int) string {
	if path == "" {
		return strconv.Itoa(i)
	}
	return fmt.Sprintf("%q", path)
}
