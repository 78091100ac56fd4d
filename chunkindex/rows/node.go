// Package rows is the form in which samples of columnar files (Parquet, Arrow) are cached and served: one row after another, each
// a contiguous stretch of bytes. The form is frozen, since digests and ETags are made of it. docs/spec/rows.md describes each byte.
package rows

import (
	"errors"
	"fmt"
	"math"
)

// Kind says how the values of a node are written.
type Kind uint8

// The kinds of nodes.
const (
	Fixed  Kind = iota // Size bytes
	Bytes              // any number of bytes
	Struct             // the fields in Children
	List               // any number of the one node in Children
)

// Limits of a schema.
const (
	MaxNodes = 1 << 16 // nodes of a schema
	MaxDepth = 64      // nodes above a node
	maxFixed = 1 << 24 // bytes of a value of a fixed size
)

// Node is a field of a schema, or the element of a list.
type Node struct {
	Name     string // of a field; an element has none
	Type     string // of a value that is Fixed or Bytes, in Arrow's words: "int64", "utf8"; of others "struct", "list" or "map"
	Logical  string // what the file says that a value of Type stands for, where Arrow lays such out otherwise: "int8" of an "int32"; "": no other
	Kind     Kind
	Size     int // bytes of a Fixed value
	Nullable bool
	Classes  []string // names of an integer's values, from 0; nil: it has none, or they are not known
	Children []*Node
}

// Flat says whether the node is a list whose values are its elements' bytes, one after another.
func (n *Node) Flat() bool { return n.Kind == List && n.Children[0].Kind == Fixed }

// errSchema is returned for a schema that no file can have.
var errSchema = errors.New("schema is malformed")

// check refuses a tree of nodes that is malformed or too large. It returns the number of nodes.
func (n *Node) check(depth int) (int, error) {
	if depth > MaxDepth {
		return 0, fmt.Errorf("column %q is nested deeper than %d levels", n.Name, MaxDepth)
	}
	ok := false
	switch n.Kind {
	case Fixed:
		ok = len(n.Children) == 0 && n.Size > 0 && n.Size <= maxFixed
	case Bytes:
		ok = len(n.Children) == 0 && n.Size == 0
	case Struct:
		ok = len(n.Children) > 0 && n.Size == 0
	case List:
		ok = len(n.Children) == 1 && n.Size == 0
	}
	if !ok {
		return 0, fmt.Errorf("column %q: %w", n.Name, errSchema)
	}
	sum := 1
	for _, c := range n.Children {
		k, err := c.check(depth + 1)
		if err != nil {
			return 0, err
		}
		if sum += k; sum > MaxNodes {
			return 0, fmt.Errorf("schema has more than %d nodes", MaxNodes)
		}
	}
	return sum, nil
}

// MaxRow is the length of the longest row.
const MaxRow = math.MaxInt32
