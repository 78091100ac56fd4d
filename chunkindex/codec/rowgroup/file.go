package rowgroup

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits of a file.
const (
	MaxFooter = 64 << 20      // maximum bytes of a footer
	MaxGroup  = 1 << 30       // maximum stored and maximum decompressed bytes of a row group
	MaxRows   = 4 << 20       // maximum rows of a row group
	maxOffset = math.MaxInt64 // maximum of any offset in a file
)

// File is the parsed footer of a Parquet file.
type File struct {
	Fields []*rows.Node // chosen fields
	Groups []Group      // non-empty row groups, in file order
	Hub    string       // column metadata of the Hugging Face datasets library, if that library wrote the file
	Arrow  string       // schema of Arrow from which the file was written, encoded in base64, if the writer stored it

	chosen []bool // for each leaf of the whole schema, whether it is chosen
	all    bool   // all leaves are chosen
	leaves []leaf // chosen leaves
}

// Group describes a row group: its location and how to decode it.
type Group struct {
	Offset int64        // offset of the row group's first byte
	Pieces []rows.Range // ranges that are read, if columns are omitted; nil: the whole row group
	Raw    int64        // number of decompressed bytes, according to the footer
	Frame  *Frame
}

// Read returns the ranges of the row group that are read. Concatenated, they form the stored bytes
// of the row group.
func (g *Group) Read() []rows.Range {
	if g.Pieces != nil {
		return g.Pieces
	}
	return []rows.Range{{Offset: g.Offset, Length: g.Frame.Length}}
}

// ReadFooter parses a file's footer, without the length and magic number that follow it. size is
// the size of the file before the footer. names selects the columns, as in rows.Choose; errors in
// other columns are ignored.
func ReadFooter(b []byte, size int64, names []string) (*File, error) {
	meta, err := parseFooter(b)
	if err != nil {
		return nil, err
	}
	f := &File{Hub: meta.note(rows.HubKey), Arrow: meta.note("ARROW:schema")}
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
			return nil, fmt.Errorf("row group %d: it begins before the end of the preceding row group, so the file cannot be read sequentially: write the file again", i)
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

// choose reads the schema and removes the fields that names does not select.
func (f *File) choose(schema []element, names []string) error {
	all, leaves, err := fields(schema)
	if err != nil {
		return err
	}
	c, err := rows.Choose(all, names)
	if err != nil {
		return err
	}
	f.Fields, f.all, f.chosen = c.Fields, c.All(), leavesOf(all, c.Kept)
	f.leaves = chosen(f, leaves)
	return nil
}

// leavesOf returns the values of said that belong to leaves. said has a value for each node in
// pre-order.
func leavesOf(nodes []*rows.Node, said []bool) (leaves []bool) {
	at := 0
	walk(nodes, "", func(_ string, n *rows.Node) {
		if len(n.Children) == 0 {
			leaves = append(leaves, said[at])
		}
		at++
	})
	return leaves
}

// chosen returns the chosen ones of the leaves, or of their column chunks.
func chosen[T any](f *File, leaves []T) (left []T) {
	for i, l := range leaves {
		if f.chosen[i] {
			left = append(left, l)
		}
	}
	return left
}

// group validates a row group and returns its description.
func (f *File) group(g *group, size int64) (Group, error) {
	if len(g.columns) != len(f.chosen) {
		return Group{}, fmt.Errorf("%d column chunks for %d columns", len(g.columns), len(f.chosen))
	}
	columns := chosen(f, g.columns)
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
	if !f.all {
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
		return Group{}, fmt.Errorf("its columns have no bytes, although it has %d rows", g.rows)
	}
	frame := &Frame{Fields: f.Fields, Rows: g.rows, Length: length, leaves: f.leaves}
	for i := range columns {
		c := &columns[i]
		frame.chunks = append(frame.chunks, place{c.codec, rows.Place(read, c.begin()), c.compressed, c.values})
	}
	group := Group{Offset: read[0].Offset, Raw: raw, Frame: frame}
	if !f.all {
		group.Pieces = read
	}
	return group, nil
}

// tooLarge returns an error that states the size of a row group and explains how to write smaller
// ones.
func tooLarge(n, raw int64) error {
	const aim = 64 << 20 // recommended bytes of a row group
	fit := max(1, min(MaxRows, int64(float64(n)*min(1, aim/float64(max(raw, 1))))))
	return fmt.Errorf("%d rows of %d bytes exceed the limit (%d rows, %d bytes): write the file again with row_group_size=%d or less", n, raw, MaxRows, MaxGroup, fit)
}

// check returns an error for a column chunk that is unsupported or extends outside of the file.
func (c *chunk) check(l leaf, size int64) error {
	switch {
	case c.encrypted:
		return errEncrypted
	case c.elsewhere != "":
		return fmt.Errorf("it is stored in another file, %.200q: this is not supported", c.elsewhere)
	case !c.hasMeta:
		return errors.New("it is not described in the footer")
	case c.physical != int64(l.physical):
		return fmt.Errorf("physical type %d does not match the schema's %d", c.physical, l.physical)
	case c.values < 0 || c.raw < 0:
		return errThrift
	case c.begin() < 4 || c.compressed < 0 || c.begin() > size || c.compressed > size-c.begin():
		return fmt.Errorf("its range of %[2]d bytes at offset %[1]d is not within the file", c.begin(), c.compressed)
	}
	return checkPack(c.codec)
}

// paths returns the dotted path of each leaf.
func paths(nodes []*rows.Node) (all []string) {
	walk(nodes, "", func(path string, n *rows.Node) {
		if len(n.Children) == 0 {
			all = append(all, path)
		}
	})
	return all
}

// walk calls visit for all nodes in pre-order.
func walk(nodes []*rows.Node, above string, visit func(path string, n *rows.Node)) {
	for _, n := range nodes {
		path := above + cmp.Or(n.Name, "element")
		visit(path, n)
		walk(n.Children, path+".", visit)
	}
}
