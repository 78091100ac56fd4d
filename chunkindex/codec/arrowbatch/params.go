package arrowbatch

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Batch is where a record batch lies in a chunk.
type Batch struct {
	Gap    int64 // bytes between the batch before and this one
	Length int64 // of its message, with the body
}

// paramsVersion is the first byte of parameters.
const paramsVersion = 1

// nullable is set beside the form of a node.
const nullable = 0x80

// Params returns what an index keeps for a chunk of these batches: how the columns lie in their buffers, and where the batches are. It is
// frozen: docs/index-format.md describes it.
func (s *Schema) Params(batches []Batch) []byte {
	b := binary.AppendUvarint([]byte{paramsVersion}, uint64(len(s.all)))
	for _, l := range s.all {
		b = l.params(b)
	}
	b = binary.AppendUvarint(b, uint64(len(batches)))
	for _, one := range batches {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(one.Gap)), uint64(one.Length))
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
	}
	for _, c := range l.children {
		b = c.params(b)
	}
	return b
}

// errParams is returned for parameters that no index has.
var errParams = errors.New("parameters of record batches are malformed")

// paramsReader reads what Params has written, from bytes that nobody has checked.
type paramsReader struct {
	b     []byte
	nodes int
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
	if len(b) == 0 || b[0] != paramsVersion {
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
	var batches []Batch
	for range r.number(math.MaxInt32) {
		batches = append(batches, Batch{int64(r.number(math.MaxInt64)), int64(r.number(math.MaxInt64))})
		if r.bad {
			break
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, errParams
	}
	return s, batches, nil
}

// node reads a node. Its name is its number, since names are no part of a row.
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
