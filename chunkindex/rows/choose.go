package rows

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is the columns of a schema that somebody chose.
type Choice struct {
	Fields []*Node // what is left of the schema
	Kept   []bool  // of each node of the whole schema, in pre-order, what lies inside lists among them
}

// All says whether nothing is left out.
func (c *Choice) All() bool { return !slices.Contains(c.Kept, false) }

// Choose leaves out the columns that no name takes. A name is the path of a column, or of a struct, of which it takes all. No names take
// everything. A name that takes nothing is an error, which says what could be chosen.
func Choose(fields []*Node, names []string) (*Choice, error) {
	c := chooser{names: names, used: make([]bool, len(names))}
	left := c.choose(fields, "", len(names) == 0)
	for i, used := range c.used {
		if !used {
			return nil, &ChoiceError{names[i], c.paths}
		}
	}
	return &Choice{left, c.kept}, nil
}

// ChoiceError is the fault of a name that takes no column.
type ChoiceError struct {
	Name    string
	Columns []string // that can be chosen
}

func (e *ChoiceError) Error() string {
	return fmt.Sprintf("no column is called %.200q: the columns are %s", e.Name, listed(e.Columns))
}

type chooser struct {
	names []string
	used  []bool // of the names
	kept  []bool
	paths []string // of columns that can be chosen
}

// choose goes through the fields of a struct. all says that the struct itself was chosen.
func (c *chooser) choose(fields []*Node, above string, all bool) (left []*Node) {
	for _, f := range fields {
		path, at := above+f.Name, len(c.kept)
		taken := c.takes(path) || all
		c.kept = append(c.kept, taken)
		if f.Kind != Struct {
			c.paths = append(c.paths, path)
			c.below(f, taken)
			if taken {
				left = append(left, f)
			}
			continue
		}
		inside := c.choose(f.Children, path+".", taken)
		switch {
		case taken:
			left = append(left, f)
		case len(inside) > 0:
			own := *f
			own.Children = inside
			left, c.kept[at] = append(left, &own), true
		}
	}
	return left
}

// takes says whether a name is this path.
func (c *chooser) takes(path string) bool {
	takes := false
	for i, name := range c.names {
		if name == path {
			takes, c.used[i] = true, true
		}
	}
	return takes
}

// below says of the nodes inside a list what is said of the list.
func (c *chooser) below(n *Node, kept bool) {
	for _, child := range n.Children {
		c.kept = append(c.kept, kept)
		c.below(child, kept)
	}
}

// maxListed is how many columns an error names: files have thousands.
const maxListed = 30

func listed(paths []string) string {
	more := ""
	if n := len(paths); n > maxListed {
		paths, more = paths[:maxListed], fmt.Sprintf(" and %d more", n-maxListed)
	}
	return fmt.Sprintf("%.4000s", strings.Join(paths, ", ")) + more
}
