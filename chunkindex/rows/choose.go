package rows

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a selection of the columns of a schema.
type Choice struct {
	Fields []*Node // the chosen fields of the schema
	Kept   []bool  // for each node of the whole schema in pre-order, including nodes inside lists: whether it is chosen
}

// All reports whether every column was chosen.
func (c *Choice) All() bool { return !slices.Contains(c.Kept, false) }

// Choose selects columns by name. A name is the path of a column, or of a struct, which selects all
// columns in it. Without names, Choose selects every column. For a name that selects no column, it
// returns a ChoiceError, which lists the columns.
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

// ChoiceError is the error for a name that selects no column.
type ChoiceError struct {
	Name    string
	Columns []string // columns that can be selected
}

func (e *ChoiceError) Error() string {
	return fmt.Sprintf("no column has the name %.200q: the columns are %s", e.Name, listed(e.Columns))
}

type chooser struct {
	names []string
	used  []bool // for each name: whether it selected a column
	kept  []bool
	paths []string // columns that can be selected
}

// choose selects among the fields of a struct. all is set if the struct itself was selected.
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

// takes reports whether a name equals this path, and marks the name as used.
func (c *chooser) takes(path string) bool {
	takes := false
	for i, name := range c.names {
		if name == path {
			takes, c.used[i] = true, true
		}
	}
	return takes
}

// below marks all nodes inside a list as kept or not, like the list itself.
func (c *chooser) below(n *Node, kept bool) {
	for _, child := range n.Children {
		c.kept = append(c.kept, kept)
		c.below(child, kept)
	}
}

// maxListed limits the number of columns in an error, because files can have thousands.
const maxListed = 30

func listed(paths []string) string {
	more := ""
	if n := len(paths); n > maxListed {
		paths, more = paths[:maxListed], fmt.Sprintf(" and %d more", n-maxListed)
	}
	return fmt.Sprintf("%.4000s", strings.Join(paths, ", ")) + more
}
