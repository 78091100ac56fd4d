package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// field is a Node in its JSON form.
type field struct {
	Name      string   `json:"name,omitempty"`
	Type      string   `json:"type"`
	Logical   string   `json:"logical,omitempty"`
	Arrow     string   `json:"arrow,omitempty"`
	Extension []string `json:"extension,omitempty"`
	Size      int      `json:"size,omitempty"`
	Nullable  bool     `json:"nullable,omitempty"`
	Classes   []string `json:"classes,omitempty"`
	Children  []field  `json:"children,omitempty"`
}

// schema holds the constants of a dataset whose samples are rows.
type schema struct {
	Fields []field `json:"fields"`
}

// Marshal returns a schema as JSON. Equal schemas produce the same bytes.
func Marshal(fields []*Node) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(schema{toFields(fields)}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func toFields(nodes []*Node) []field {
	fields := make([]field, len(nodes))
	for i, n := range nodes {
		fields[i] = field{n.Name, n.Type, n.Logical, n.Arrow, n.Extension, n.Size, n.Nullable, n.Classes, nil}
		if len(n.Children) > 0 {
			fields[i].Children = toFields(n.Children)
		}
	}
	return fields
}

// Unmarshal reads and checks the output of Marshal.
func Unmarshal(b json.RawMessage) ([]*Node, error) {
	var s schema
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("row schema: %w", err)
	}
	if d.More() {
		return nil, errors.New("row schema: unexpected data after the JSON value")
	}
	nodes := toNodes(s.Fields)
	if _, err := NewLayout(nodes); err != nil {
		return nil, fmt.Errorf("row schema: %w", err)
	}
	return nodes, nil
}

func toNodes(fields []field) []*Node {
	if len(fields) == 0 {
		return nil
	}
	nodes := make([]*Node, len(fields))
	for i, f := range fields {
		n := &Node{
			Name: f.Name, Type: f.Type, Logical: f.Logical, Arrow: f.Arrow, Extension: f.Extension, Kind: Bytes, Size: f.Size, Nullable: f.Nullable,
			Classes: f.Classes, Children: toNodes(f.Children),
		}
		switch {
		case f.Type == "struct":
			n.Kind = Struct
		case f.Type == "list" || f.Type == "map":
			n.Kind = List
		case f.Size != 0:
			n.Kind = Fixed
		}
		nodes[i] = n
	}
	return nodes
}

// TypeName returns a node's type in Arrow's notation, with the types of its children:
// "list<float>", "struct<a: int64, b: utf8>".
func (n *Node) TypeName() string {
	switch {
	case n.Kind == Struct:
		return "struct<" + names(n.Children) + ">"
	case n.Kind == List && n.Type == "map" && len(n.Children[0].Children) == 2:
		entry := n.Children[0].Children
		return "map<" + entry[0].TypeName() + ", " + entry[1].TypeName() + ">"
	case n.Kind == List:
		return "list<" + n.Children[0].TypeName() + ">"
	}
	return n.Type
}

func names(nodes []*Node) string {
	var b bytes.Buffer
	for i, n := range nodes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", n.Name, n.TypeName())
	}
	return b.String()
}
