package body

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// columns are the columns of a body, except the keys.
type columns struct {
	t       texts
	names   []string                // of the parts that are columns; nil: the schema defines the columns
	types   map[string]format.Field // fields by part name; empty: no types are known
	schema  []*rows.Node            // schema of the rows; nil: the samples are not rows
	classes bool                    // every sample has a part with its class added

	all    []*column          // in pre-order, without those inside lists
	byPart map[string]*column // by the name of the part
}

// column is a column, or a field of a struct, whose values are parts of samples.
type column struct {
	*arrow.Column
	above   *column        // the struct around it
	parts   []int32        // index of the part in each sample, or absent; for a struct, of any part inside it
	builder *arrow.Builder // converts the values; nil: the bytes of the parts are the values
	small   bool           // the checksum of a part determines its bytes
}

// readColumns returns the columns of a body: the parts in View.Fields, or those that the dataset's
// format declares, or one per part in any sample of the body, in byte order.
func readColumns(ctx context.Context, b *Body, a Answer) (c *columns, err error) {
	c = describeColumns(a)
	if c.t, err = b.readTexts(ctx, a); err != nil {
		return c, err
	}
	if c.names == nil && c.schema == nil {
		c.names, err = c.t.allNames(b)
	}
	return c, err
}

// describeColumns returns the columns of an answer that the index describes, without samples.
func describeColumns(a Answer) *columns {
	x := a.Dataset.Index
	c := &columns{names: a.View.Fields, types: map[string]format.Field{}, classes: x.InClassFolders()}
	if s, ok := x.Framing().(framing.Schema); ok {
		c.schema = s.Schema()
	}
	for _, f := range x.Fields() {
		c.types[f.Name] = f
		if a.View.Fields == nil && !x.OtherParts() && c.schema == nil {
			c.names = append(c.names, f.Name)
		}
	}
	return c
}

// Converts reports whether the samples must be read to lay out the answer, because values have
// another form in it.
func (a Answer) Converts() bool {
	if a.View.Form.Name != formArrow {
		return false
	}
	c := describeColumns(a)
	c.plan()
	return slices.ContainsFunc(c.all, func(n *column) bool { return n.builder != nil && !n.small })
}

// allNames returns the names of all parts in byte order.
func (t texts) allNames(b *Body) (names []string, err error) {
	known := map[string]bool{}
	for _, all := range t.parts {
		for _, p := range all {
			if !known[p.Ext] {
				known[p.Ext] = true
				names = append(names, p.Ext)
			}
		}
		if err := b.checkText(int64(len(known)) * int64(len(b.samples))); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

// isText reports whether a part is UTF-8 text, by its last extension.
func isText(ext string) bool {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	return last == "json" || last == "txt"
}

// field returns the column for a part name. A part whose bytes match no Arrow type becomes a bytes
// column, with its encoding in the metadata.
func (c *columns) field(name string) arrow.Field {
	f := arrow.Field{Name: strings.ToValidUTF8(name, "\uFFFD"), Type: arrow.Bytes(), Nullable: true}
	if isText(name) {
		f.Type = arrow.Text()
	}
	told, ok := c.types[name]
	if !ok {
		return f
	}
	f.Nullable = told.Nullable
	if told.Logical != "" {
		f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:logical", Value: told.Logical})
	}
	if name == chunkindex.ClassPart && c.classes {
		f.Type, _ = arrow.ParseType(told.Type)
		return f
	}
	if told.Encoding == format.Raw {
		t, ok := arrow.ParseType(told.Type)
		if ok && told.Shape != nil {
			t, ok = t.Array(told.Shape)
		}
		if f.Type = t; ok {
			return f
		}
	}
	f.Type = arrow.Bytes()
	if told.Encoding == format.JSON {
		f.Type = arrow.Text()
	}
	f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:encoding", Value: told.Encoding})
	if told.Type != "" {
		f.Metadata = append(f.Metadata, arrow.Pair{Key: "millrace:type", Value: told.Type})
	}
	return f
}

// plan sets the columns, and returns those that are not fields of a struct. If names are selected,
// the fields of structs are columns, too.
func (c *columns) plan() (top []*arrow.Column) {
	c.byPart = map[string]*column{}
	if c.names == nil {
		return c.addNodes(c.schema, nil, "")
	}
	nodes := map[string]*rows.Node{}
	leaves(nodes, c.schema, "")
	for _, name := range c.names {
		n := nodes[name]
		if n == nil && c.types[name].Encoding == format.Raw && c.types[name].Type == "bool" && c.types[name].Shape == nil {
			n = &rows.Node{Type: "bool", Kind: rows.Fixed, Size: 1}
		}
		if n == nil {
			top = append(top, c.add(name, arrow.NewColumn(c.field(name)), nil).Column)
			continue
		}
		own := c.addNode(n, name, nil)
		own.Name, own.Nullable = strings.ToValidUTF8(name, "\uFFFD"), c.types[name].Nullable
		top = append(top, own.Column)
	}
	return top
}

// leaves adds the nodes that are not structs, by their paths.
func leaves(to map[string]*rows.Node, nodes []*rows.Node, above string) {
	for _, n := range nodes {
		if n.Kind == rows.Struct {
			leaves(to, n.Children, above+n.Name+".")
		} else {
			to[above+n.Name] = n
		}
	}
}

// add adds the column of a part.
func (c *columns) add(part string, own *arrow.Column, above *column) *column {
	n := &column{Column: own, above: above}
	c.byPart[part] = n
	c.all = append(c.all, n)
	return n
}

// addNodes adds the columns of fields.
func (c *columns) addNodes(nodes []*rows.Node, above *column, path string) (own []*arrow.Column) {
	for _, n := range nodes {
		own = append(own, c.addNode(n, path+n.Name, above).Column)
	}
	return own
}

// addNode adds the column of a field.
func (c *columns) addNode(n *rows.Node, path string, above *column) *column {
	build := arrow.NewBuilder(n)
	own := c.add(path, build.Column, above)
	switch {
	case n.Kind == rows.Struct:
		own.Children = c.addNodes(n.Children, own, path+".")
	case !arrow.Stored(n):
		own.builder, own.small = build, n.Kind == rows.Fixed && n.Size <= 4 || n.AlwaysNull()
	}
	return own
}

// absent is the index of a missing part.
const absent = -1

// locate finds the part of each column in each sample, and the structs that are present.
func (c *columns) locate() {
	for _, n := range c.all {
		n.parts = slices.Repeat([]int32{absent}, len(c.t.parts))
	}
	for row, parts := range c.t.parts {
		for i, p := range parts {
			for n := c.byPart[p.Ext]; n != nil && n.parts[row] == absent; n = n.above {
				n.parts[row] = int32(i)
			}
		}
	}
}

// measure sets the sizes and nulls of a column whose values are parts, or of a struct.
func (c *columns) measure(n *column) error {
	lengths, null := make([]uint32, len(n.parts)), make([]bool, len(n.parts))
	missing := false
	for row, at := range n.parts {
		switch {
		case at < 0:
			null[row], missing = true, true
		case c.t.parts[row][at].added && n.Type.Width() > 0:
			lengths[row] = uint32(n.Type.Width())
		default:
			lengths[row] = c.t.parts[row][at].Length
		}
	}
	switch {
	case !missing:
		null = nil
	case n.above == nil && n.Holder() != nil:
		n.Nullable = true
	}
	err := n.SetLengths(lengths, null)
	if !n.Nullable { // a struct whose fields are null, or a field of a null struct
		n.Null = nil
	}
	return err
}

// build passes the values of a column to its builder.
func (c *columns) build(n *column, samples [][]byte) error {
	for row, at := range n.parts {
		if at < 0 {
			n.builder.Skip()
			continue
		}
		p, value := c.t.parts[row][at], []byte(nil)
		switch {
		case n.small && p.Length <= 4:
			small := smallValue(p.CRC32C, int(p.Length))
			value = small[:p.Length]
		case row < len(samples) && int64(p.Offset)+int64(p.Length) <= int64(len(samples[row])):
			value = samples[row][p.Offset:][:p.Length]
		default:
			return fmt.Errorf("column %.100q: %w: %d bytes", n.Name, arrow.ErrUnfit, p.Length)
		}
		if err := n.builder.Add(value); err != nil {
			return fmt.Errorf("column %.100q: %w", n.Name, err)
		}
	}
	return nil
}

// smallValue returns the bytes, at most four, with a given length and CRC-32C, by running the
// checksum backwards. CRC-32C maps byte strings of one such length one to one.
func smallValue(sum uint32, length int) (b [4]byte) {
	v := ^sum
	for range 8 * length {
		if v>>31 == 1 { // the polynomial, whose highest bit is set, was added
			v = (v^crc32.Castagnoli)<<1 | 1
		} else {
			v <<= 1
		}
	}
	binary.LittleEndian.PutUint32(b[:], ^v)
	return b
}
