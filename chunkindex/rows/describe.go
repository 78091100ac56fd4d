package rows

import (
	"encoding/json"
	"fmt"
)

// Describe returns the name and type of each column of a schema, for errors.
func Describe(fields []*Node) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = fmt.Sprintf("%q of type %s", f.Name, describe(f))
	}
	return all
}

// describe returns a node's type, including the information that TypeName omits: logical types and
// nullability.
func describe(n *Node) string {
	t := n.TypeName()
	if len(n.Children) > 0 {
		inside := ""
		for i, c := range n.Children {
			if i > 0 {
				inside += ", "
			}
			if c.Name != "" {
				inside += c.Name + ": "
			}
			inside += describe(c)
		}
		t = n.Type + "<" + inside + ">"
	}
	if n.Logical != "" {
		t = n.Logical + " as " + t
	}
	if n.Nullable {
		return t
	}
	return t + " not null"
}

// Differ returns an error that describes the difference between a file's schema and the first
// file's schema. first is the Marshal output of the first schema.
func Differ(name string, first json.RawMessage, own []*Node) error {
	nodes, err := Unmarshal(first)
	if err != nil {
		return err
	}
	was, is := Describe(nodes), Describe(own)
	for i := range max(len(was), len(is)) {
		a, b := "none", "none"
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a != b {
			return fmt.Errorf("its schema differs from the schema of %s: column %d is %s in that file, but %s in this one: index the files of each schema separately (--match)", name, i+1, a, b)
		}
	}
	return fmt.Errorf("its schema differs from the schema of %s", name)
}
