package rowgroup

import (
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Physical types with the numbers that Parquet defines.
const (
	physBoolean = 0
	physInt32   = 1
	physInt64   = 2
	physInt96   = 3
	physFloat   = 4
	physDouble  = 5
	physBytes   = 6
	physFixed   = 7
)

// Repetitions with the numbers that Parquet defines.
const (
	required = 0
	optional = 1
	repeated = 2
)

// Logical types with the numbers in Parquet's union.
const (
	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalEnum      = 4
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalNull      = 11
	logicalJSON      = 12
	logicalBSON      = 13
	logicalUUID      = 14
	logicalFloat16   = 15
	logicalInterval  = -1 // only obtained from a converted type
)

// Converted types, which older files contain instead of logical types.
const (
	convertedMap         = 1
	convertedMapKeyValue = 2
	convertedList        = 3
)

// leaf is a leaf column of the file.
type leaf struct {
	physical int
	size     int // bytes of a value; 0: variable size
}

// tree converts the flat list of schema elements to nodes, and lists the leaves in the order of the
// column chunks.
type tree struct {
	schema []element
	at     int
	leaves []leaf
	depth  int
}

// fields converts the schema of a file to the nodes of a row and the leaf columns.
func fields(schema []element) (nodes []*rows.Node, _ []leaf, err error) {
	defer catch("schema: ", &err)
	if len(schema) == 0 || schema[0].children < 0 || schema[0].children >= int64(len(schema)) {
		fail(errThrift)
	}
	t := &tree{schema: schema, at: 1}
	for range schema[0].children {
		nodes = append(nodes, t.field())
	}
	if t.at != len(schema) {
		fail(errThrift)
	}
	return nodes, t.leaves, nil
}

// next returns the next element of the schema.
func (t *tree) next() *element {
	if t.at >= len(t.schema) {
		fail(errThrift)
	}
	e := &t.schema[t.at]
	t.at++
	if e.repetition < required || e.repetition > repeated || e.children < 0 || e.children > int64(len(t.schema)) || (e.physical < 0) != (e.children > 0) {
		fail(fmt.Errorf("column %.100q: %w", e.name, errThrift))
	}
	return e
}

// field reads a field of a struct. A repeated field without an annotation is a list. Neither this
// list nor its elements are nullable.
func (t *tree) field() *rows.Node {
	e := t.next()
	n := t.value(e)
	if e.repetition != repeated {
		return n
	}
	n.Name, n.Nullable = "", false
	return &rows.Node{Name: e.name, Type: "list", Kind: rows.List, Children: []*rows.Node{n}}
}

// value reads an element with its children. It ignores the element's repetition.
func (t *tree) value(e *element) *rows.Node {
	if t.depth++; t.depth > rows.MaxDepth {
		fail(fmt.Errorf("column %.100q is nested deeper than %d levels", e.name, rows.MaxDepth))
	}
	defer func() { t.depth-- }()
	switch {
	case e.children == 0:
		return t.leaf(e)
	case e.isList():
		return t.list(e)
	case e.isMap():
		return t.mapping(e)
	}
	n := &rows.Node{Name: e.name, Type: "struct", Kind: rows.Struct, Nullable: e.repetition == optional}
	for range e.children {
		n.Children = append(n.Children, t.field())
	}
	return n
}

func (e *element) isList() bool {
	return e.logical.kind == logicalList || e.logical.kind == 0 && e.converted == convertedList
}

func (e *element) isMap() bool {
	return e.logical.kind == logicalMap || e.logical.kind == 0 && (e.converted == convertedMap || e.converted == convertedMapKeyValue)
}

// list reads a group annotated as a list. It accepts the current three-level structure, and the
// two-level structure of older writers.
func (t *tree) list(e *element) *rows.Node {
	middle := t.next()
	if e.children != 1 || middle.repetition != repeated {
		fail(fmt.Errorf("column %.100q is annotated as a list but has another structure", e.name))
	}
	var element *rows.Node
	if t.wraps(e, middle) {
		element = t.field()
	} else {
		element = t.value(middle)
		element.Nullable = false
	}
	element.Name = ""
	return &rows.Node{Name: e.name, Type: "list", Kind: rows.List, Nullable: e.repetition == optional, Children: []*rows.Node{element}}
}

// wraps reports whether the repeated group of a list only wraps the element. Otherwise the group
// itself is the element, as older writers store it. See the "backward-compatibility rules" of lists
// in Parquet's specification.
func (t *tree) wraps(e, middle *element) bool {
	return middle.children == 1 && middle.name != "array" && middle.name != e.name+"_tuple" && !middle.isList() && !middle.isMap() &&
		t.at < len(t.schema) && t.schema[t.at].repetition != repeated
}

// mapping reads a group annotated as a map, which is a list of keys and values. A map with only
// keys becomes a list of the keys.
func (t *tree) mapping(e *element) *rows.Node {
	middle := t.next()
	if e.children != 1 || middle.repetition != repeated || middle.children < 1 || middle.children > 2 {
		fail(fmt.Errorf("column %.100q is annotated as a map but has another structure", e.name))
	}
	entry := &rows.Node{Type: "struct", Kind: rows.Struct}
	for i := range middle.children {
		f := t.field()
		f.Name = []string{"key", "value"}[i]
		entry.Children = append(entry.Children, f)
	}
	n := &rows.Node{Name: e.name, Type: "map", Kind: rows.List, Nullable: e.repetition == optional, Children: []*rows.Node{entry}}
	if len(entry.Children) == 1 {
		n.Type, n.Children = "list", entry.Children
		n.Children[0].Name = ""
	}
	return n
}

func (t *tree) leaf(e *element) *rows.Node {
	n := &rows.Node{Name: e.name, Kind: rows.Fixed, Size: sizeOf(int(e.physical)), Nullable: e.repetition == optional}
	switch {
	case e.physical == physBytes:
		n.Kind = rows.Bytes
	case e.physical == physFixed && (e.length < 1 || e.length > maxFixed):
		fail(fmt.Errorf("column %.100q has values of %d bytes", e.name, e.length))
	case e.physical == physFixed:
		n.Size = int(e.length)
	case n.Size == 0:
		fail(fmt.Errorf("column %.100q has the unknown physical type %d", e.name, e.physical))
	}
	n.Type, n.Logical = e.typeName(), e.logicalName()
	t.leaves = append(t.leaves, leaf{int(e.physical), n.Size})
	return n
}
