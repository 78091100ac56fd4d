package arrowbatch

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Batch locates a record batch in a chunk.
type Batch struct {
	Gap          int64  // bytes between the preceding batch and this one
	Length       int64  // length of the message, including the body
	Dictionaries []byte // result of Used; nil without dictionaries

	dicts []*dictionary
}

// Version byte of parameters, for a schema without dictionaries and for a schema with dictionaries.
const (
	paramsPlain = 1
	paramsCoded = 2
)

// nullable is a flag in the byte that contains a node's form.
const nullable = 0x80

// Params returns the parameters that an index stores for a chunk of these batches: the buffer
// layout of the columns and the locations of the batches. The encoding is frozen:
// docs/spec/index-format.md describes it.
func (s *Schema) Params(batches []Batch) []byte {
	version := byte(paramsPlain)
	if len(s.coded) > 0 {
		version = paramsCoded
	}
	b := binary.AppendUvarint([]byte{version}, uint64(len(s.all)))
	for _, l := range s.all {
		b = l.params(b)
	}
	b = binary.AppendUvarint(b, uint64(len(batches)))
	for _, one := range batches {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(one.Gap)), uint64(one.Length))
		b = append(b, one.Dictionaries...)
	}
	return b
}

func (l *layout) params(b []byte) []byte {
	head := byte(l.form)
	if l.node.Nullable {
		head |= nullable
	}
	b = append(b, head)
	switch l.form {
	case formFixed:
		b = binary.AppendUvarint(b, uint64(l.node.Size))
	case formFixList:
		b = binary.AppendUvarint(b, uint64(l.count))
	case formStruct:
		b = binary.AppendUvarint(b, uint64(len(l.children)))
	case formCoded:
		numbers := byte(l.width)
		if l.signed {
			numbers |= signedNumbers
		}
		b = binary.AppendUvarint(append(b, numbers), uint64(l.node.Size))
	}
	for _, c := range l.children {
		b = c.params(b)
	}
	return b
}

// signedNumbers is a flag in the byte that contains the width of a dictionary column's numbers.
const signedNumbers = 4

// errParams is the error for parameters that no valid index contains.
var errParams = errors.New("parameters of record batches are malformed")

// paramsReader decodes bytes that Params wrote, without trusting them.
type paramsReader struct {
	b     []byte
	nodes int
	coded []*layout
}

func (r *paramsReader) number(most uint64) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		fail(errParams)
	}
	r.b = r.b[n:]
	return int(v)
}

// take removes n bytes from the start.
func (r *paramsReader) take(n int) []byte {
	if n > len(r.b) {
		fail(errParams)
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func parseParams(b []byte) (s *Schema, batches []Batch, err error) {
	defer catch(&err)
	r := &paramsReader{b: b}
	version := r.take(1)[0]
	if version != paramsPlain && version != paramsCoded {
		fail(errParams)
	}
	s = &Schema{}
	for range r.number(rows.MaxNodes) {
		s.all = append(s.all, r.node(0))
	}
	if s.coded = r.coded; (len(s.coded) > 0) != (version == paramsCoded) {
		fail(errParams)
	}
	for range r.number(math.MaxInt32) {
		one := Batch{Gap: int64(r.number(math.MaxInt64)), Length: int64(r.number(math.MaxInt64))}
		for _, l := range s.coded {
			one.dicts = append(one.dicts, r.dictionary(l))
		}
		batches = append(batches, one)
	}
	if len(r.b) > 0 {
		fail(errParams)
	}
	return s, batches, nil
}

// node decodes a node. It uses the node's number as its name, because rows do not contain names.
func (r *paramsReader) node(depth int) *layout {
	l := &layout{node: &rows.Node{Name: strconv.Itoa(r.nodes)}}
	if r.nodes++; depth > rows.MaxDepth || r.nodes > rows.MaxNodes {
		fail(errParams)
	}
	head := r.take(1)[0]
	l.form, l.node.Nullable = form(head&^nullable), head&nullable != 0
	children := 0
	switch l.form {
	case formFixed:
		if l.node.Kind, l.node.Size = rows.Fixed, r.number(math.MaxInt32); l.node.Size == 0 {
			fail(errParams)
		}
	case formBits:
		l.node.Kind, l.node.Size = rows.Fixed, 1
	case formBytes, formLarge, formView, formNull:
		l.node.Kind = rows.Bytes
	case formStruct:
		l.node.Kind, children = rows.Struct, r.number(rows.MaxNodes)
	case formList, formLists, formFixList:
		l.node.Kind, children = rows.List, 1
		if l.form == formFixList {
			l.count = r.number(math.MaxInt32)
		}
	case formCoded:
		r.codedNode(l)
	default:
		fail(errParams)
	}
	for range children {
		c := r.node(depth + 1)
		l.children, l.node.Children = append(l.children, c), append(l.node.Children, c.node)
	}
	return l
}

// codedNode decodes the data after the head of a dictionary column.
func (r *paramsReader) codedNode(l *layout) {
	numbers := r.take(1)[0]
	if numbers > 3|signedNumbers {
		fail(errParams)
	}
	l.width, l.signed = int(numbers&3), numbers&signedNumbers != 0
	if l.node.Kind, l.node.Size = rows.Bytes, r.number(math.MaxInt32); l.node.Size > 0 {
		l.node.Kind = rows.Fixed
	}
	r.coded = append(r.coded, l)
}
