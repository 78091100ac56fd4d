package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// schema holds the constants of a dataset whose samples are rows.
type schema struct {
	Fields []*Node `json:"fields"`
}

// Marshal returns a schema as JSON. Equal schemas produce the same bytes.
func Marshal(fields []*Node) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(schema{fields}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
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
	err := setKinds(s.Fields)
	if err == nil {
		_, err = NewLayout(s.Fields)
	}
	if err != nil {
		return nil, fmt.Errorf("row schema: %w", err)
	}
	return s.Fields, nil
}

// setKinds sets the kinds of nodes, which their JSON form omits.
func setKinds(nodes []*Node) error {
	for _, n := range nodes {
		switch {
		case n == nil:
			return errSchema
		case n.Type == "struct":
			n.Kind = Struct
		case n.Type == "list" || n.Type == "map":
			n.Kind = List
		case n.Size == 0:
			n.Kind = Bytes
		}
		if err := setKinds(n.Children); err != nil {
			return err
		}
	}
	return nil
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
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name+": "+n.TypeName())
	}
	return strings.Join(all, ", ")
}
