package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Mapping converts the rows of a file to the layout of its dataset, which may have other columns, in
// another order, and more nullable nodes. Its stored form is frozen: docs/spec/index-format.md
// describes it.
type Mapping struct {
	steps []source // for each step of the dataset's layout
	bits  int
}

// source is the origin of the value of a step.
type source struct {
	kind  uint64 // sourceNull, sourceFixed, sourceVariable, or sourceStep and the number of a step of the file's rows
	bit   int    // position in the null bitmap; -1: the node is never null
	value []byte // constant
}

// Kinds of sources.
const (
	sourceNull     = iota // always null
	sourceFixed           // a constant of fixed size
	sourceVariable        // a constant of variable length
	sourceStep
)

// Constant is a column that has the same value in all rows of a file.
type Constant struct {
	Node  *Node
	Value []byte // nil: null
}

// NewMapping returns the mapping from a file's schema to its dataset's. It is nil if the rows are
// the same. Columns that the file lacks are constants, or null.
func NewMapping(dataset, file []*Node, constants []Constant) (*Mapping, error) {
	to, err := NewLayout(dataset)
	if err != nil {
		return nil, err
	}
	from, err := NewLayout(file)
	if err != nil {
		return nil, err
	}
	own := make(map[string]int, len(from.Steps))
	for i, s := range from.Steps {
		own[s.Path] = i
	}
	fixed := map[string]Constant{}
	for _, c := range constants {
		fixed[c.Node.Name] = c
	}
	m := &Mapping{bits: to.bits}
	same := len(to.Steps) == len(from.Steps)
	for i, s := range to.Steps {
		f := source{bit: s.Bit}
		at, has := own[s.Path]
		switch c := fixed[s.Path]; {
		case has && !from.Steps[at].Node.AlwaysNull():
			f.kind = sourceStep + uint64(at)
			same = same && at == i && from.Steps[at].Bit == s.Bit
		case c.Value != nil && s.Variable():
			f.kind, f.value = sourceVariable, c.Value
		case c.Value != nil:
			f.kind, f.value = sourceFixed, c.Value
		default:
			same = same && has // always null in both
		}
		m.steps = append(m.steps, f)
	}
	if same {
		return nil, nil
	}
	return m, nil
}

// Append appends the stored form of the mapping.
func (m *Mapping) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.steps)))
	for _, s := range m.steps {
		head := s.kind << 1
		if s.bit >= 0 {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		if s.kind == sourceFixed || s.kind == sourceVariable {
			b = append(binary.AppendUvarint(b, uint64(len(s.value))), s.value...)
		}
	}
	return b
}

// errMapping is the error for bytes that are not a mapping.
var errMapping = errors.New("mapping of columns is malformed")

// CutMapping decodes a mapping from the start of b, and returns the remaining bytes.
func CutMapping(b []byte) (m *Mapping, rest []byte, err error) {
	number := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			err, b = errMapping, nil
			return 0
		}
		b = b[n:]
		return v
	}
	m = &Mapping{}
	for range number(MaxNodes) {
		head := number(2*(MaxNodes+sourceStep) + 1)
		s := source{kind: head >> 1, bit: -1}
		if head&1 != 0 {
			s.bit = m.bits
			m.bits++
		}
		if s.kind == sourceFixed || s.kind == sourceVariable {
			n := number(uint64(len(b)))
			if n > uint64(len(b)) {
				return nil, nil, errMapping
			}
			s.value, b = b[:n], b[n:]
		}
		if err != nil {
			return nil, nil, err
		}
		m.steps = append(m.steps, s)
	}
	return m, b, err
}

// mapped is the part of a Builder that converts its rows.
type mapped struct {
	mapping *Mapping
	pieces  []int // for each step of the layout: the number of its value, isStruct, or isNull
	out     Builder
}

const (
	isNull   = -1
	isStruct = -2
)

// Map makes the builder convert its rows. A nil mapping changes nothing.
func (b *Builder) Map(m *Mapping) error {
	if m == nil {
		return nil
	}
	for _, s := range m.steps {
		if s.kind >= sourceStep+uint64(len(b.layout.Steps)) {
			return errMapping
		}
	}
	b.mapped = &mapped{mapping: m, pieces: make([]int, len(b.layout.Steps)), out: Builder{bitmap: make([]byte, max(1, (m.bits+7)/8))}}
	return nil
}

// convert returns a builder with the converted row.
func (b *Builder) convert() *Builder {
	m, out := b.mapped, &b.mapped.out
	out.Reset()
	next := 0
	for i := 0; i < len(m.pieces); i++ {
		switch s := &b.layout.Steps[i]; {
		case s.null(b.bitmap):
			for end := i + s.Skip; ; i++ {
				if m.pieces[i] = isNull; i == end {
					break
				}
			}
		case s.Node.Kind == Struct:
			m.pieces[i] = isStruct
		default:
			m.pieces[i] = next
			next++
		}
	}
	for i := range m.mapping.steps {
		s := &m.mapping.steps[i]
		piece := isNull
		if s.kind >= sourceStep {
			piece = m.pieces[s.kind-sourceStep]
		}
		switch {
		case s.kind == sourceFixed:
			out.Fixed(s.value)
		case s.kind == sourceVariable:
			out.Variable(s.value)
		case piece >= 0 && b.layout.Steps[s.kind-sourceStep].Variable():
			out.Variable(b.pieces[piece])
		case piece >= 0:
			out.Fixed(b.pieces[piece])
		case piece == isNull && s.bit >= 0:
			out.bitmap[s.bit/8] |= 1 << (s.bit % 8)
		}
	}
	return out
}

// AlwaysNull reports whether the node has the type of columns that are null in all rows of a file.
func (n *Node) AlwaysNull() bool { return n.Type == "null" || n.Logical == "null" }

// Merge returns a schema that has the columns of two files. A column is nullable if one of the files
// lacks it, or has it nullable. It returns an error for a column whose types differ.
func Merge(a, b []*Node) ([]*Node, error) { return mergeFields(a, b, "") }

func mergeFields(a, b []*Node, above string) ([]*Node, error) {
	other := make(map[string]*Node, len(b))
	for _, n := range b {
		other[n.Name] = n
	}
	all := make([]*Node, 0, len(a))
	for _, n := range a {
		o, both := other[n.Name]
		delete(other, n.Name)
		if !both {
			all = append(all, n.orNull())
			continue
		}
		m, err := merge(n, o, above+n.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for _, n := range b {
		if other[n.Name] != nil {
			all = append(all, n.orNull())
		}
	}
	return all, nil
}

// orNull returns the node as nullable.
func (n *Node) orNull() *Node {
	if n.Nullable {
		return n
	}
	c := *n
	c.Nullable = true
	return &c
}

// merge returns the node of a column that both files have.
func merge(a, b *Node, path string) (*Node, error) {
	switch {
	case b.AlwaysNull():
		return a.orNull(), nil
	case a.AlwaysNull():
		return b.orNull(), nil
	case a.Type != b.Type || a.Logical != b.Logical || a.Kind != b.Kind || a.Size != b.Size:
		return nil, &MergeError{path, describe(a), describe(b)}
	}
	m := *a
	m.Nullable = a.Nullable || b.Nullable
	m.agree(b)
	var err error
	switch a.Kind {
	case Struct:
		m.Children, err = mergeFields(a.Children, b.Children, path+".")
	case List:
		m.Children, err = mergeElements(a.Children[0], b.Children[0], path)
	}
	return &m, err
}

// mergeElements merges the elements of lists. Whether they may be null does not change the bytes of
// a list, but the rest of them does.
func mergeElements(a, b *Node, path string) ([]*Node, error) {
	x, y := *a, *b
	x.Nullable = a.Nullable || b.Nullable
	y.Nullable = x.Nullable
	if describe(&x) != describe(&y) || x.Name != y.Name {
		return nil, &MergeError{path, "list<" + describe(a) + ">", "list<" + describe(b) + ">"}
	}
	return []*Node{x.common(&y)}, nil
}

// agree removes the types of Arrow in which a node of the same type differs.
func (n *Node) agree(o *Node) {
	if n.ArrowType() != o.ArrowType() || !slices.Equal(n.Extension, o.Extension) {
		n.Arrow, n.Extension = "", nil
	}
}

// common returns the node with only those types of Arrow that another node of the same type has.
func (n *Node) common(o *Node) *Node {
	c := *n
	c.agree(o)
	c.Children = nil
	for i, child := range n.Children {
		c.Children = append(c.Children, child.common(o.Children[i]))
	}
	return &c
}

// MergeError is the error for a column that has different types in two files.
type MergeError struct{ Column, First, Other string }

func (e *MergeError) Error() string {
	return fmt.Sprintf("column %q is of type %s, and of type %s", e.Column, e.First, e.Other)
}
