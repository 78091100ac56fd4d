package rowgroup

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits of a file.
const (
	MaxFooter = 64 << 20      // bytes of a footer
	MaxGroup  = 1 << 30       // bytes of a row group, as it is stored, and decompressed
	MaxRows   = 4 << 20       // rows of a row group
	maxOffset = math.MaxInt64 // of anything in a file
)

// File is what a footer says of a Parquet file.
type File struct {
	Fields []*rows.Node
	Groups []Group // those that have rows, in the order of the file
	Hub    string  // what the library datasets says of the columns, if it wrote the file
}

// Group is where a row group lies, and how it is decoded.
type Group struct {
	Offset int64 // of its first byte
	Raw    int64 // bytes, decompressed, as the footer has it
	Frame  *Frame
}

// ReadFooter reads a file's footer, without the length and the magic number after it. size is that of the file before the footer.
func ReadFooter(b []byte, size int64) (*File, error) {
	meta, err := parseFooter(b)
	if err != nil {
		return nil, err
	}
	f := &File{Hub: meta.hub}
	var leaves []leaf
	if f.Fields, leaves, err = fields(meta.schema); err != nil {
		return nil, err
	}
	if _, err := rows.NewLayout(f.Fields); err != nil {
		return nil, err
	}
	end := int64(0)
	for i := range meta.groups {
		g := &meta.groups[i]
		if g.rows == 0 {
			continue
		}
		group, err := f.group(g, leaves, size)
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
		if group.Offset < end {
			return nil, fmt.Errorf("row group %d: it begins before the end of the one before it, so the two cannot be read one after another: write the file again", i)
		}
		group.Frame.Gap = group.Offset - end
		end = group.Offset + group.Frame.Length
		f.Groups = append(f.Groups, group)
	}
	return f, nil
}

// group checks what a footer says of a row group.
func (f *File) group(g *group, leaves []leaf, size int64) (Group, error) {
	if len(g.columns) != len(leaves) {
		return Group{}, fmt.Errorf("%d column chunks for %d columns", len(g.columns), len(leaves))
	}
	paths := paths(f.Fields)
	frame := &Frame{Fields: f.Fields, Rows: g.rows, leaves: leaves}
	from, to, raw := size, int64(0), int64(0)
	for i := range g.columns {
		c := &g.columns[i]
		err := c.check(leaves[i], size)
		if err != nil {
			return Group{}, fmt.Errorf("column %s: %w", columnName(paths[i], i), err)
		}
		from, to = min(from, c.begin()), max(to, c.begin()+c.compressed)
		raw += min(c.raw, math.MaxInt64-raw)
	}
	switch {
	case g.rows < 0 || to < from:
		return Group{}, errThrift
	case g.rows > MaxRows || raw > MaxGroup || to-from > MaxGroup:
		return Group{}, tooLarge(g.rows, max(raw, to-from))
	}
	frame.Length = to - from
	for i := range g.columns {
		c := &g.columns[i]
		frame.chunks = append(frame.chunks, place{c.codec, c.begin() - from, c.compressed, c.values})
	}
	return Group{Offset: from, Raw: raw, Frame: frame}, nil
}

// tooLarge says how large a row group is, and how to write smaller ones.
func tooLarge(n, raw int64) error {
	const aim = 64 << 20 // bytes of a row group
	fit := max(1, min(MaxRows, int64(float64(n)*min(1, aim/float64(max(raw, 1))))))
	return fmt.Errorf("%d rows of %d bytes are more than is read at once (%d rows, %d bytes): write the file again with row_group_size=%d or less", n, raw, MaxRows, MaxGroup, fit)
}

// check refuses a column chunk that is not read, or that does not lie in the file.
func (c *chunk) check(l leaf, size int64) error {
	switch {
	case c.encrypted:
		return errEncrypted
	case c.elsewhere != "":
		return fmt.Errorf("it lies in another file, %.200q, which is not read", c.elsewhere)
	case !c.hasMeta:
		return errors.New("the footer does not describe it")
	case c.physical != int64(l.physical):
		return fmt.Errorf("physical type %d, where the schema has %d", c.physical, l.physical)
	case c.values < 0 || c.raw < 0:
		return errThrift
	case c.begin() < 4 || c.compressed < 0 || c.begin() > size || c.compressed > size-c.begin():
		return fmt.Errorf("bytes from %d on, %d of them, do not lie in the file", c.begin(), c.compressed)
	}
	return checkPack(c.codec)
}

// paths returns the dotted path of each leaf.
func paths(nodes []*rows.Node) []string {
	var all []string
	var walk func(nodes []*rows.Node, above string)
	walk = func(nodes []*rows.Node, above string) {
		for _, n := range nodes {
			path := above + n.Name
			if n.Name == "" {
				path = above + "element"
			}
			if len(n.Children) == 0 {
				all = append(all, path)
				continue
			}
			walk(n.Children, path+".")
		}
	}
	walk(nodes, "")
	return all
}
