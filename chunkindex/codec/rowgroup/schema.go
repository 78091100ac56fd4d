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
func fields(schema []element) ([]*rows.Node, []leaf, error) {
	if len(schema) == 0 || schema[0].children < 0 || schema[0].children >= int64(len(schema)) {
		return nil, nil, fmt.Errorf("schema: %w", errThrift)
	}
	t := &tree{schema: schema, at: 1}
	var nodes []*rows.Node
	for range schema[0].children {
		n, err := t.field()
		if err != nil {
			return nil, nil, fmt.Errorf("schema: %w", err)
		}
		nodes = append(nodes, n)
	}
	if t.at != len(schema) {
		return nil, nil, fmt.Errorf("schema: %w", errThrift)
	}
	return nodes, t.leaves, nil
}

// next returns the next element of the schema.
func (t *tree) next() (*element, error) {
	if t.at >= len(t.schema) {
		return nil, errThrift
	}
	e := &t.schema[t.at]
	t.at++
	if e.repetition < required || e.repetition > repeated || e.children < 0 || e.children > int64(len(t.schema)) || (e.physical < 0) != (e.children > 0) {
		return nil, fmt.Errorf("column %.100q: %w", e.name, errThrift)
	}
	return e, nil
}

// field reads a field of a struct. A repeated field without an annotation is a list. Neither this
// list nor its elements are nullable.
func (t *tree) field() (*rows.Node, error) {
	e, err := t.next()
	if err != nil {
		return nil, err
	}
	n, err := t.value(e)
	if err != nil || e.repetition != repeated {
		return n, err
	}
	n.Name, n.Nullable = "", false
	return &rows.Node{Name: e.name, Type: "list", Kind: rows.List, Children: []*rows.Node{n}}, nil
}

// value reads an element with its children. It ignores the element's repetition.
func (t *tree) value(e *element) (*rows.Node, error) {
	if t.depth++; t.depth > rows.MaxDepth {
		return nil, fmt.Errorf("column %.100q is nested deeper than %d levels", e.name, rows.MaxDepth)
	}
	defer func() { t.depth-- }()
	if e.children == 0 {
		return t.leaf(e)
	}
	switch {
	case e.isList():
		return t.list(e)
	case e.isMap():
		return t.mapping(e)
	}
	n := &rows.Node{Name: e.name, Type: "struct", Kind: rows.Struct, Nullable: e.repetition == optional}
	for range e.children {
		f, err := t.field()
		if err != nil {
			return nil, err
		}
		n.Children = append(n.Children, f)
	}
	return n, nil
}

func (e *element) isList() bool {
	return e.logical.kind == logicalList || e.logical.kind == 0 && e.converted == convertedList
}

func (e *element) isMap() bool {
	return e.logical.kind == logicalMap || e.logical.kind == 0 && (e.converted == convertedMap || e.converted == convertedMapKeyValue)
}

// list reads a group annotated as a list. It accepts the current three-level structure, and the
// two-level structure of older writers.
func (t *tree) list(e *element) (*rows.Node, error) {
	n := &rows.Node{Name: e.name, Type: "list", Kind: rows.List, Nullable: e.repetition == optional}
	middle, err := t.next()
	if err != nil {
		return nil, err
	}
	if e.children != 1 || middle.repetition != repeated {
		return nil, fmt.Errorf("column %.100q is annotated as a list but has another structure", e.name)
	}
	var element *rows.Node
	if t.wraps(e, middle) {
		element, err = t.field()
	} else if element, err = t.value(middle); err == nil {
		element.Nullable = false
	}
	if err != nil {
		return nil, err
	}
	element.Name = ""
	n.Children = []*rows.Node{element}
	return n, nil
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
func (t *tree) mapping(e *element) (*rows.Node, error) {
	middle, err := t.next()
	if err != nil {
		return nil, err
	}
	if e.children != 1 || middle.repetition != repeated || middle.children < 1 || middle.children > 2 {
		return nil, fmt.Errorf("column %.100q is annotated as a map but has another structure", e.name)
	}
	entry := &rows.Node{Type: "struct", Kind: rows.Struct}
	for i := range middle.children {
		f, err := t.field()
		if err != nil {
			return nil, err
		}
		f.Name = []string{"key", "value"}[i]
		entry.Children = append(entry.Children, f)
	}
	n := &rows.Node{Name: e.name, Type: "map", Kind: rows.List, Nullable: e.repetition == optional, Children: []*rows.Node{entry}}
	if len(entry.Children) == 1 {
		n.Type, n.Children = "list", entry.Children
		n.Children[0].Name = ""
	}
	return n, nil
}

func (t *tree) leaf(e *element) (*rows.Node, error) {
	n := &rows.Node{Name: e.name, Kind: rows.Fixed, Nullable: e.repetition == optional}
	switch e.physical {
	case physBoolean:
		n.Size = 1
	case physInt32, physFloat:
		n.Size = 4
	case physInt64, physDouble:
		n.Size = 8
	case physInt96:
		n.Size = 12
	case physBytes:
		n.Kind = rows.Bytes
	case physFixed:
		if e.length < 1 || e.length > 1<<24 {
			return nil, fmt.Errorf("column %.100q has values of %d bytes", e.name, e.length)
		}
		n.Size = int(e.length)
	default:
		return nil, fmt.Errorf("column %.100q has the unknown physical type %d", e.name, e.physical)
	}
	n.Type, n.Logical = e.typeName(), e.logicalName()
	t.leaves = append(t.leaves, leaf{int(e.physical), n.Size})
	return n, nil
}
