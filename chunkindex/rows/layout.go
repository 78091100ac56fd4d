package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Step is one node of a layout, in pre-order. Nodes inside a list are not part of the row's layout.
type Step struct {
	Node *Node
	Path string // names of the node and of the structs around it, joined by dots
	Bit  int    // position of the node's bit in the null bitmap; -1: the node is never null
	Skip int    // for a struct: number of the following steps inside it
}

// Variable reports whether a row stores the length of the value, before all values, if the value is
// present.
func (s *Step) Variable() bool { return s.Node.Kind == Bytes || s.Node.Kind == List }

// Layout is a checked schema, used to write and read rows.
type Layout struct {
	Steps []Step
	bits  int
}

// maxPath limits the length of a column's path.
const maxPath = 4096

// NewLayout checks the fields of a row, or of a struct inside a list, and returns their layout.
func NewLayout(fields []*Node) (*Layout, error) {
	if len(fields) == 0 {
		return nil, errors.New("schema has no columns")
	}
	total := 0
	for _, f := range fields {
		n, err := f.check(0)
		if err != nil {
			return nil, err
		}
		if total += n; total > MaxNodes {
			return nil, fmt.Errorf("schema has more than %d nodes", MaxNodes)
		}
	}
	l := &Layout{}
	if err := l.add(fields, "", make(map[string]bool)); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Layout) add(fields []*Node, above string, seen map[string]bool) error {
	for _, f := range fields {
		path := above + f.Name
		switch {
		case path == AllNull:
			return fmt.Errorf("a column has the name %q, which is reserved for rows with only nulls", path)
		case f.Name == "":
			return fmt.Errorf("a column below %q has no name", strings.TrimSuffix(above, "."))
		case !utf8.ValidString(f.Name):
			return fmt.Errorf("the name of column %q is not UTF-8", f.Name[:min(len(f.Name), 100)])
		case len(path) > maxPath:
			return fmt.Errorf("the path of column %q is longer than %d bytes", path[:100], maxPath)
		case seen[path]:
			return fmt.Errorf("two columns have the path %q", path)
		}
		seen[path] = true
		at := len(l.Steps)
		l.Steps = append(l.Steps, Step{Node: f, Path: path, Bit: -1})
		if f.Nullable {
			l.Steps[at].Bit = l.bits
			l.bits++
		}
		if f.Kind == Struct {
			if err := l.add(f.Children, path+".", seen); err != nil {
				return err
			}
			l.Steps[at].Skip = len(l.Steps) - at - 1
		}
	}
	return nil
}

// Bitmap returns the length of the null bitmap at the start of a row.
func (l *Layout) Bitmap() int { return max(1, (l.bits+7)/8) }

// null reports whether a step's node is marked as null.
func (s *Step) null(bitmap []byte) bool {
	return s.Bit >= 0 && bitmap[s.Bit/8]&(1<<(s.Bit%8)) != 0
}

// errRow is the error for bytes that are not a row of the layout.
var errRow = errors.New("row is malformed")

// Lengths returns the number of length bytes after a bitmap. It returns an error for an invalid
// bitmap.
func (l *Layout) Lengths(bitmap []byte) (int, error) {
	if len(bitmap) != l.Bitmap() {
		return 0, errRow
	}
	for bit := l.bits; bit < 8*len(bitmap); bit++ {
		if bitmap[bit/8]&(1<<(bit%8)) != 0 {
			return 0, errRow
		}
	}
	n := 0
	for i := 0; i < len(l.Steps); i++ {
		s := &l.Steps[i]
		switch {
		case s.null(bitmap):
			for j := i + 1; j <= i+s.Skip; j++ {
				if in := &l.Steps[j]; in.Bit >= 0 && !in.null(bitmap) {
					return 0, errRow
				}
			}
			i += s.Skip
		case s.Variable():
			n += 4
		}
	}
	return n, nil
}

// Part is a value that is present in a row.
type Part struct {
	Path   string
	Length int
}

// AllNull is the name of the only part, of zero bytes, of a row in which every value is null. Every
// sample thus has a part, so forms that consist of parts retain the sample. No column has this
// name.
const AllNull = "__null__"

// Parts appends the parts of a row with these lengths to dst, in row order. A nullable struct that
// is present but has no parts inside it is a part of zero bytes.
func (l *Layout) Parts(bitmap, lengths []byte, dst []Part) ([]Part, error) {
	before := len(dst)
	dst, lengths, _, err := l.parts(0, len(l.Steps), bitmap, lengths, dst)
	switch {
	case err != nil || len(lengths) > 0:
		return nil, errRow
	case len(dst) == before:
		dst = append(dst, Part{Path: AllNull})
	}
	return dst, nil
}

// parts appends the parts of the steps [from, to). It returns the remaining lengths and the total
// length of the parts.
func (l *Layout) parts(from, to int, bitmap, lengths []byte, dst []Part) ([]Part, []byte, int64, error) {
	sum := int64(0)
	for i := from; i < to; i++ {
		s := &l.Steps[i]
		if s.null(bitmap) {
			i += s.Skip
			continue
		}
		if s.Node.Kind == Struct {
			more, rest, n, err := l.parts(i+1, i+1+s.Skip, bitmap, lengths, dst)
			if err != nil {
				return nil, nil, 0, err
			}
			if len(more) == len(dst) && s.Bit >= 0 {
				more = append(more, Part{Path: s.Path})
			}
			dst, lengths, sum, i = more, rest, sum+n, i+s.Skip
			if sum > MaxRow {
				return nil, nil, 0, errRow
			}
			continue
		}
		n := int64(s.Node.Size)
		if s.Variable() {
			if len(lengths) < 4 {
				return nil, nil, 0, errRow
			}
			n, lengths = int64(binary.LittleEndian.Uint32(lengths)), lengths[4:]
			if s.Node.Flat() && n%int64(s.Node.Children[0].Size) != 0 {
				return nil, nil, 0, errRow
			}
		}
		if sum += n; sum > MaxRow {
			return nil, nil, 0, errRow
		}
		dst = append(dst, Part{s.Path, int(n)})
	}
	return dst, lengths, sum, nil
}
