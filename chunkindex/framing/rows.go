package framing

import (
	"encoding/json"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// rowsFraming is the framing of datasets whose samples are rows.
type rowsFraming struct {
	schema []*rows.Node
	fields []format.Field
}

// Schema is a Framing of datasets whose samples are rows.
type Schema interface{ Schema() []*rows.Node }

// readRows reads a schema written by rows.Marshal.
func readRows(constants json.RawMessage) (format.Framing, error) {
	nodes, err := rows.Unmarshal(constants)
	if err != nil {
		return nil, err
	}
	l, err := rows.NewLayout(nodes)
	if err != nil {
		return nil, err
	}
	return rowsFraming{nodes, fieldsOf(l)}, nil
}

// ContentType returns the media type of a sequence of rows.
func (rowsFraming) ContentType() string { return "application/vnd.millrace.rows" }

// Frame implements format.Framing. Rows have nothing before or after them.
func (rowsFraming) Frame([]uint32) (before, after []byte, err error) { return nil, nil, nil }

// Fields implements format.Typed.
func (f rowsFraming) Fields() []format.Field { return f.fields }

// Schema implements Schema.
func (f rowsFraming) Schema() []*rows.Node { return f.schema }

// fieldsOf returns the fields of rows. A present struct whose children are all null is a part of
// zero bytes.
func fieldsOf(l *rows.Layout) []format.Field {
	nullable := false
	var fields []format.Field
	var until []int // positions of the last steps of the nullable structs around a step
	for i, s := range l.Steps {
		for len(until) > 0 && until[len(until)-1] < i {
			until = until[:len(until)-1]
		}
		nullable = len(until) > 0 || s.Node.Nullable
		if s.Node.Kind == rows.Struct {
			if s.Node.Nullable {
				until = append(until, i+s.Skip)
			}
			continue
		}
		f := fieldOf(s.Node)
		f.Name, f.Type, f.Nullable = s.Path, s.Node.TypeName(), nullable
		fields = append(fields, f)
	}
	return fields
}

// fieldOf describes a node. If the description includes the children, the type is one word.
func fieldOf(n *rows.Node) format.Field {
	f := format.Field{Name: n.Name, Encoding: format.Raw, Type: n.TypeName(), Logical: n.Logical, Nullable: n.Nullable, Classes: n.Classes}
	switch {
	case n.Flat():
		f.Classes = n.Children[0].Classes
		if element := n.Children[0].Logical; element != "" {
			f.Logical = "list<" + element + ">"
		}
	case len(n.Children) > 0:
		f.Encoding, f.Type = format.Nested, n.Type
		for _, c := range n.Children {
			f.Children = append(f.Children, fieldOf(c))
		}
	}
	return f
}
