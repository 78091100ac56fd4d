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
	Fields []*rows.Node // those that were chosen
	Groups []Group      // those that have rows, in the order of the file
	Hub    string       // what the library datasets says of the columns, if it wrote the file

	chosen []bool // of the leaves of the whole schema; nil: all of them
	leaves []leaf // those that were chosen
}

// Group is where a row group lies, and how it is decoded.
type Group struct {
	Offset int64        // of its first byte
	Pieces []rows.Range // what is read of it, where columns are left out; nil: all of it
	Raw    int64        // bytes, decompressed, as the footer has it
	Frame  *Frame
}

// Read returns the ranges that are read of the row group: one after another they are its stored bytes.
func (g *Group) Read() []rows.Range {
	if g.Pieces != nil {
		return g.Pieces
	}
	return []rows.Range{{Offset: g.Offset, Length: g.Frame.Length}}
}

// ReadFooter reads a file's footer, without the length and the magic number after it. size is that of the file before the footer. Of
// the columns those are read that rows.Choose takes by these names; what is wrong with others does not matter.
func ReadFooter(b []byte, size int64, names []string) (*File, error) {
	meta, err := parseFooter(b)
	if err != nil {
		return nil, err
	}
	f := &File{Hub: meta.hub}
	if err := f.choose(meta.schema, names); err != nil {
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
		group, err := f.group(g, size)
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
		if group.Offset < end {
			return nil, fmt.Errorf("row group %d: it begins before the end of the one before it, so the two cannot be read one after another: write the file again", i)
		}
		if group.Pieces == nil {
			group.Frame.Gap = group.Offset - end
		}
		read := group.Read()
		end = read[len(read)-1].End()
		f.Groups = append(f.Groups, group)
	}
	return f, nil
}

// choose reads the schema, and leaves out what was not chosen.
func (f *File) choose(schema []element, names []string) error {
	all, leaves, err := fields(schema)
	if err != nil {
		return err
	}
	c, err := rows.Choose(all, names)
	if err != nil {
		return err
	}
	f.Fields, f.leaves = c.Fields, leaves
	if c.All() {
		return nil
	}
	f.chosen, f.leaves = leavesOf(all, c.Kept), nil
	for i, l := range leaves {
		if f.chosen[i] {
			f.leaves = append(f.leaves, l)
		}
	}
	return nil
}

// leavesOf returns what is said of each leaf, from what is said of each node in pre-order.
func leavesOf(nodes []*rows.Node, said []bool) (leaves []bool) {
	at := 0
	var walk func(nodes []*rows.Node)
	walk = func(nodes []*rows.Node) {
		for _, n := range nodes {
			if len(n.Children) == 0 {
				leaves = append(leaves, said[at])
			}
			at++
			walk(n.Children)
		}
	}
	walk(nodes)
	return leaves
}

// columns returns the column chunks of a row group that were chosen.
func (f *File) columns(g *group) ([]chunk, error) {
	want := len(f.leaves)
	if f.chosen != nil {
		want = len(f.chosen)
	}
	if len(g.columns) != want {
		return nil, fmt.Errorf("%d column chunks for %d columns", len(g.columns), want)
	}
	if f.chosen == nil {
		return g.columns, nil
	}
	var columns []chunk
	for i, c := range g.columns {
		if f.chosen[i] {
			columns = append(columns, c)
		}
	}
	return columns, nil
}

// group checks what a footer says of a row group.
func (f *File) group(g *group, size int64) (Group, error) {
	columns, err := f.columns(g)
	if err != nil {
		return Group{}, err
	}
	paths := paths(f.Fields)
	from, to, raw := size, int64(0), int64(0)
	ranges := make([]rows.Range, len(columns))
	for i := range columns {
		c := &columns[i]
		if err := c.check(f.leaves[i], size); err != nil {
			return Group{}, fmt.Errorf("column %s: %w", columnName(paths[i], i), err)
		}
		ranges[i] = rows.Range{Offset: c.begin(), Length: c.compressed}
		from, to = min(from, ranges[i].Offset), max(to, ranges[i].End())
		raw += min(c.raw, math.MaxInt64-raw)
	}
	read := []rows.Range{{Offset: from, Length: to - from}}
	if f.chosen != nil {
		read = rows.Join(ranges)
	}
	length := int64(0)
	for _, r := range read {
		length += r.Length
	}
	switch {
	case g.rows < 0 || to < from:
		return Group{}, errThrift
	case g.rows > MaxRows || raw > MaxGroup || length > MaxGroup:
		return Group{}, tooLarge(g.rows, max(raw, length))
	case length == 0:
		return Group{}, fmt.Errorf("its columns have no bytes for %d rows", g.rows)
	}
	frame := &Frame{Fields: f.Fields, Rows: g.rows, Length: length, leaves: f.leaves}
	for i := range columns {
		c := &columns[i]
		frame.chunks = append(frame.chunks, place{c.codec, rows.Place(read, c.begin()), c.compressed, c.values})
	}
	group := Group{Offset: read[0].Offset, Raw: raw, Frame: frame}
	if f.chosen != nil {
		group.Pieces = read
	}
	return group, nil
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
