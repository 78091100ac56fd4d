package rows

import "slices"

// HubKey is the key of a file's metadata under which Hugging Face's library datasets says what the columns are.
const HubKey = "huggingface"

// SetClasses gives the integers of a schema the names of their values: names[path][n] is that of n. The path of a list's element is the
// list's own. An integer without names loses those that it has.
func SetClasses(fields []*Node, names map[string][]string) {
	eachNode(fields, "", func(path string, n *Node) {
		n.Classes = nil
		if n.integer() {
			n.Classes = names[path]
		}
	})
}

// Classes returns the names that SetClasses gave.
func Classes(fields []*Node) map[string][]string {
	names := map[string][]string{}
	eachNode(fields, "", func(path string, n *Node) {
		if n.Classes != nil {
			names[path] = n.Classes
		}
	})
	return names
}

func eachNode(nodes []*Node, above string, visit func(path string, n *Node)) {
	for _, n := range nodes {
		path := above
		switch {
		case above == "":
			path = n.Name
		case n.Name != "":
			path += "." + n.Name
		}
		visit(path, n)
		eachNode(n.Children, path, visit)
	}
}

func (n *Node) integer() bool {
	return slices.Contains([]string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}, n.Type)
}
