package rows

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
