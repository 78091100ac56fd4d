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
	bad   bool
}

func (r *paramsReader) number(most uint64) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func parseParams(b []byte) (*Schema, []Batch, error) {
	if len(b) == 0 || b[0] != paramsPlain && b[0] != paramsCoded {
		return nil, nil, errParams
	}
	r := &paramsReader{b: b[1:]}
	s := &Schema{}
	for range r.number(rows.MaxNodes) {
		s.all = append(s.all, r.node(0))
		if r.bad {
			return nil, nil, errParams
		}
	}
	if s.coded = r.coded; (len(s.coded) > 0) != (b[0] == paramsCoded) {
		return nil, nil, errParams
	}
	var batches []Batch
	for range r.number(math.MaxInt32) {
		one := Batch{Gap: int64(r.number(math.MaxInt64)), Length: int64(r.number(math.MaxInt64))}
		for _, l := range s.coded {
			one.dicts = append(one.dicts, r.dictionary(l))
			if r.bad {
				return nil, nil, errParams
			}
		}
		batches = append(batches, one)
		if r.bad {
			break
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, errParams
	}
	return s, batches, nil
}

// node decodes a node. It uses the node's number as its name, because rows do not contain names.
func (r *paramsReader) node(depth int) *layout {
	l := &layout{node: &rows.Node{Name: strconv.Itoa(r.nodes)}}
	if r.nodes++; len(r.b) == 0 || depth > rows.MaxDepth || r.nodes > rows.MaxNodes {
		r.bad = true
		return l
	}
	l.form, l.node.Nullable = form(r.b[0]&^nullable), r.b[0]&nullable != 0
	r.b = r.b[1:]
	children := 0
	switch l.form {
	case formFixed:
		l.node.Kind, l.node.Size = rows.Fixed, r.number(math.MaxInt32)
		r.bad = r.bad || l.node.Size == 0
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
		r.bad = true
	}
	for range children {
		if r.bad {
			break
		}
		c := r.node(depth + 1)
		l.children, l.node.Children = append(l.children, c), append(l.node.Children, c.node)
	}
	return l
}

// codedNode decodes the data after the head of a dictionary column.
func (r *paramsReader) codedNode(l *layout) {
	if len(r.b) == 0 || r.b[0] > 3|signedNumbers {
		r.bad = true
		return
	}
	l.width, l.signed = int(r.b[0]&3), r.b[0]&signedNumbers != 0
	r.b = r.b[1:]
	if l.node.Kind, l.node.Size = rows.Bytes, r.number(math.MaxInt32); l.node.Size > 0 {
		l.node.Kind = rows.Fixed
	}
	r.coded = append(r.coded, l)
}
