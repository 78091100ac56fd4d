package rows

import "slices"

// HubKey is the metadata key under which Hugging Face's datasets library describes a file's
// columns.
const HubKey = "huggingface"

// SetClasses sets the class names of the integers of a schema: names[path][n] is the name of the
// value n. The element of a list has the path of the list. An integer without an entry in names
// loses its class names.
func SetClasses(fields []*Node, names map[string][]string) {
	eachNode(fields, "", func(path string, n *Node) {
		n.Classes = nil
		if n.integer() {
			n.Classes = names[path]
		}
	})
}

// Classes returns the names set by SetClasses.
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
