// Package rows defines the form in which samples of columnar files (Parquet, Arrow) are cached and
// served. Rows follow one another, and each is a contiguous range of bytes. The form is frozen,
// because digests and ETags depend on it. docs/spec/rows.md describes every byte.
package rows

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kind is the encoding of a node's values.
type Kind uint8

// The kinds of nodes.
const (
	Fixed  Kind = iota // Size bytes
	Bytes              // any number of bytes
	Struct             // the fields in Children
	List               // any number of values, each described by the only child
)

// Limits of a schema.
const (
	MaxNodes = 1 << 16 // maximum number of nodes in a schema
	MaxDepth = 64      // maximum number of nodes above a node
	maxFixed = 1 << 24 // maximum size of a Fixed value in bytes
)

// Node is a field of a schema, or the element of a list.
type Node struct {
	Name      string   `json:"name,omitempty"`      // name of a field; elements have none
	Type      string   `json:"type"`                // Arrow type: such as "int64" or "utf8" for Fixed and Bytes values, otherwise "struct", "list" or "map"
	Logical   string   `json:"logical,omitempty"`   // logical type in the file, if Arrow's layout of that type differs: "int8" of an "int32"; "": none
	Arrow     string   `json:"arrow,omitempty"`     // type in Arrow that the file declares, if Type and Logical do not determine it: "large_utf8" of a "utf8"
	Extension []string `json:"extension,omitempty"` // name and parameters of an extension type of Arrow, whose storage is Arrow; nil: none
	Kind      Kind     `json:"-"`
	Size      int      `json:"size,omitempty"` // size of a Fixed value in bytes
	Nullable  bool     `json:"nullable,omitempty"`
	Classes   []string `json:"classes,omitempty"` // names of an integer's values, from 0; nil: none, or unknown
	Children  []*Node  `json:"children,omitempty"`
}

// Flat reports whether the node is a list whose bytes are only the bytes of its elements.
func (n *Node) Flat() bool { return n.Kind == List && n.Children[0].Kind == Fixed }

// ArrowType returns the type that pyarrow reads from the file, without the types of children and
// extensions.
func (n *Node) ArrowType() string {
	switch kind, rest, _ := strings.Cut(n.Type, "("); {
	case n.Arrow != "":
		return n.Arrow
	case n.Logical == "enum":
		return "binary"
	case kind == "decimal32" || kind == "decimal64":
		return "decimal128(" + rest
	case slices.Contains([]string{"", "bson", "interval", "json", "uuid"}, n.Logical):
		return n.Type
	}
	return n.Logical
}

// errSchema is the error for an invalid schema.
var errSchema = errors.New("schema is malformed")

// check returns an error for a tree of nodes that is malformed or too large, otherwise the number
// of nodes.
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

// MaxRow is the maximum length of a row.
const MaxRow = math.MaxInt32
