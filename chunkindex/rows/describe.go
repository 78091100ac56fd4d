package rows

import "fmt"

// Describe says what each column of a schema is, for errors.
func Describe(fields []*Node) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = fmt.Sprintf("%q of type %s", f.Name, describe(f))
	}
	return all
}

// describe returns a node's type with what TypeName leaves out: which nodes are nullable.
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
	if n.Nullable {
		return t
	}
	return t + " not null"
}
