package rows

import "strings"

// describe returns a node's type, including the information that TypeName omits: logical types and
// nullability.
func describe(n *Node) string {
	t := n.TypeName()
	if len(n.Children) > 0 {
		var inside []string
		for _, c := range n.Children {
			inside = append(inside, strings.TrimPrefix(c.Name+": "+describe(c), ": "))
		}
		t = n.Type + "<" + strings.Join(inside, ", ") + ">"
	}
	if n.Logical != "" {
		t = n.Logical + " as " + t
	}
	if n.Nullable {
		return t
	}
	return t + " not null"
}
