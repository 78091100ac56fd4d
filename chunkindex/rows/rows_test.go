package rows_test

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/rowstest"
)

func fixed(name string, size int, nullable bool) *rows.Node {
	return &rows.Node{Name: name, Type: "int32", Kind: rows.Fixed, Size: size, Nullable: nullable}
}

func text(name string) *rows.Node {
	return &rows.Node{Name: name, Type: "utf8", Kind: rows.Bytes, Nullable: true}
}

func structOf(name string, fields ...*rows.Node) *rows.Node {
	return &rows.Node{Name: name, Type: "struct", Kind: rows.Struct, Nullable: true, Children: fields}
}

func listOf(name string, element *rows.Node) *rows.Node {
	return &rows.Node{Name: name, Type: "list", Kind: rows.List, Nullable: true, Children: []*rows.Node{element}}
}

// example returns the schema in docs/spec/rows.md.
func example() []*rows.Node {
	return []*rows.Node{
		fixed("id", 4, false), structOf("image", &rows.Node{Name: "bytes", Type: "binary", Kind: rows.Bytes, Nullable: true}, text("path")),
		listOf("embedding", &rows.Node{Type: "float", Kind: rows.Fixed, Size: 4, Nullable: true}), listOf("tags", text("")),
	}
}

func layout(t testing.TB, fields []*rows.Node) *rows.Layout {
	t.Helper()
	l, err := rows.NewLayout(fields)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestExample checks that the builder writes the rows in docs/spec/rows.md, and that rowstest reads
// them.
func TestExample(t *testing.T) {
	l := layout(t, example())
	b := rows.NewBuilder(l)
	tags := rows.SealList([]byte{1, 0, 0, 0, 'a', 0, 0, 0, 0}, 0, []bool{false, true, false})
	for _, c := range []struct {
		fill  func()
		want  string
		parts []rows.Part
	}{
		{
			func() {
				b.Fixed([]byte{7, 0, 0, 0})
				b.Variable([]byte{0xff, 0xd8})
				b.Null(3)
				b.Variable([]byte{0, 0, 0x80, 0x3f})
				b.Variable(tags)
			}, "04 02000000 04000000 0e000000 07000000 ffd8 0000803f 03000000 02 01000000 61 00000000",
			[]rows.Part{{Path: "id", Length: 4}, {Path: "image.bytes", Length: 2}, {Path: "embedding", Length: 4}, {Path: "tags", Length: 14}},
		},
		{func() {
			b.Fixed([]byte{8, 0, 0, 0})
			b.Null(2)
			b.Null(3)
			b.Null(4)
			b.Null(5)
		}, "1e 08000000", []rows.Part{{Path: "id", Length: 4}, {Path: "image"}}},
		{func() {
			b.Fixed([]byte{9, 0, 0, 0})
			b.Null(1)
			b.Variable(nil)
			b.Variable(rows.SealList(nil, 0, nil))
		}, "07 00000000 04000000 09000000 00000000", []rows.Part{{Path: "id", Length: 4}, {Path: "embedding"}, {Path: "tags", Length: 4}}},
	} {
		b.Reset()
		c.fill()
		got, err := b.Append(nil, rows.MaxRow)
		if want := strings.ReplaceAll(c.want, " ", ""); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("got %x, %v, want %s", got, err, want)
		}
		lengths, err := l.Lengths(got[:1])
		if err != nil {
			t.Fatal(err)
		}
		parts, err := l.Parts(got[:1], got[1:1+lengths], nil)
		if d := cmp.Diff(c.parts, parts); err != nil || d != "" {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
}

// drawNode draws a node of any kind.
func drawNode(r *rapid.T, name string, depth int) *rows.Node {
	n := &rows.Node{Name: name, Type: "binary", Kind: rows.Bytes, Nullable: rapid.Bool().Draw(r, "nullable")}
	most := 3
	if depth > 2 {
		most = 1
	}
	switch rapid.IntRange(0, most).Draw(r, "kind") {
	case 0:
		n.Kind, n.Type, n.Size = rows.Fixed, "int32", rapid.IntRange(1, 9).Draw(r, "size")
	case 2:
		n.Kind, n.Type, n.Children = rows.Struct, "struct", drawFields(r, depth+1)
	case 3:
		n.Kind, n.Type, n.Children = rows.List, "list", []*rows.Node{drawNode(r, "", depth+1)}
	}
	return n
}

func drawFields(r *rapid.T, depth int) []*rows.Node {
	var fields []*rows.Node
	for i := range rapid.IntRange(1, 3).Draw(r, "fields") {
		fields = append(fields, drawNode(r, string(rune('a'+i)), depth))
	}
	return fields
}

// drawRow draws a row and fills a builder with it. It returns the row in the form that rowstest
// returns.
func drawRow(r *rapid.T, b *rows.Builder, fields []*rows.Node, step *int) map[string]any {
	row := map[string]any{}
	for _, f := range fields {
		at := *step
		*step++
		if f.Nullable && (f.Logical == "null" || rapid.Bool().Draw(r, "null")) {
			b.Null(at)
			*step += inside(f)
			row[f.Name] = nil
			continue
		}
		switch f.Kind {
		case rows.Struct:
			row[f.Name] = drawRow(r, b, f.Children, step)
		case rows.Fixed:
			v := rapid.SliceOfN(rapid.Byte(), f.Size, f.Size).Draw(r, "value")
			b.Fixed(v)
			row[f.Name] = v
		default:
			encoded, v := drawValue(r, f)
			b.Variable(encoded)
			row[f.Name] = v
		}
	}
	return row
}

// inside returns the number of steps inside a struct.
func inside(n *rows.Node) int {
	sum := 0
	if n.Kind == rows.Struct {
		for _, c := range n.Children {
			sum += 1 + inside(c)
		}
	}
	return sum
}

// drawValue draws a value of variable length.
func drawValue(r *rapid.T, n *rows.Node) (encoded []byte, v any) {
	if n.Kind == rows.Bytes {
		b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "value")
		return b, b
	}
	element, list := n.Children[0], []any{}
	var nulls []bool
	for range rapid.IntRange(0, 9).Draw(r, "elements") {
		if element.Kind == rows.Fixed {
			b := rapid.SliceOfN(rapid.Byte(), element.Size, element.Size).Draw(r, "element")
			encoded, list = append(encoded, b...), append(list, b)
			continue
		}
		null := element.Nullable && rapid.Bool().Draw(r, "null")
		nulls = append(nulls, null)
		switch {
		case null:
			list = append(list, nil)
		case element.Kind == rows.Struct:
			l, err := rows.NewLayout(element.Children)
			if err != nil {
				r.Fatal(err)
			}
			b, step := rows.NewBuilder(l), 0
			b.Reset()
			list = append(list, drawRow(r, b, element.Children, &step))
			if encoded, err = b.Append(encoded, rows.MaxRow); err != nil {
				r.Fatal(err)
			}
		default:
			b, v := drawValue(r, element)
			encoded = append(append(encoded, byte(len(b)), byte(len(b)>>8), 0, 0), b...)
			list = append(list, v)
		}
	}
	if element.Kind != rows.Fixed {
		encoded = rows.SealList(encoded, 0, nulls)
	}
	return encoded, list
}

// TestRowsAreReadAsTheyAreWritten checks that rows of any schema are read as they were written, and
// that Marshal and Unmarshal preserve schemas.
func TestRowsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		fields := drawFields(r, 0)
		schema, err := rows.Marshal(fields)
		if err != nil {
			r.Fatal(err)
		}
		again, err := rows.Unmarshal(schema)
		if err != nil {
			r.Fatal(err)
		}
		if d := cmp.Diff(fields, again); d != "" {
			r.Fatalf("(-want +got):\n%s", d)
		}
		l := layout(t, again)
		b, step := rows.NewBuilder(l), 0
		b.Reset()
		want := drawRow(r, b, fields, &step)
		encoded, err := b.Append(nil, rows.MaxRow)
		if err != nil || b.Size() != int64(len(encoded)) {
			r.Fatalf("got %d bytes, %v, want %d", len(encoded), err, b.Size())
		}
		if _, err := b.Append(nil, b.Size()-1); err == nil {
			r.Fatal("got no error beyond the limit")
		}
		got, rest, err := rowstest.Row(fields, encoded)
		if err != nil || len(rest) > 0 || !reflect.DeepEqual(want, got) {
			r.Fatalf("%v, %d bytes left (-want +got):\n%s", err, len(rest), cmp.Diff(want, got))
		}
		checkParts(r, l, encoded)
	})
}

// checkParts compares the parts of a row with its bytes.
func checkParts(r *rapid.T, l *rows.Layout, row []byte) {
	n := l.Bitmap()
	lengths, err := l.Lengths(row[:n])
	if err != nil {
		r.Fatal(err)
	}
	parts, err := l.Parts(row[:n], row[n:n+lengths], nil)
	if err != nil {
		r.Fatal(err)
	}
	sum, seen := n+lengths, map[string]bool{}
	for _, p := range parts {
		sum += p.Length
		if seen[p.Path] {
			r.Fatalf("two parts %s", p.Path)
		}
		seen[p.Path] = true
	}
	if sum != len(row) {
		r.Fatalf("parts end at %d of %d bytes", sum, len(row))
	}
}

// TestRows_RefuseMalformed checks that malformed schemas and rows are rejected.
func TestRows_RefuseMalformed(t *testing.T) {
	deep := text("x")
	for range rows.MaxDepth + 1 {
		deep = listOf("x", deep)
	}
	for want, fields := range map[string][]*rows.Node{
		"no columns": nil, "no name": {text("")}, "two columns have the path \"a\"": {text("a"), fixed("a", 1, true)},
		"two columns have the path \"a.b\"": {structOf("a", text("b")), text("a.b")}, "nested deeper": {deep}, "not UTF-8": {text("\xff")},
		"malformed": {fixed("a", 0, true)}, "longer than": {text(strings.Repeat("n", 5000))},
	} {
		if _, err := rows.NewLayout(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	l := layout(t, example())
	for name, row := range map[string]struct{ bitmap, lengths string }{
		"a bit too many": {"40", ""}, "a null struct with a value": {"01", ""}, "a length too few": {"1f", "0000"}, "a length too many": {"1f", "00000000"},
		"half an element": {"17", "03000000"}, "too long": {"00", "ffffffffffffffffffffffffffffffff"},
	} {
		bitmap, _ := hex.DecodeString(row.bitmap)
		lengths, _ := hex.DecodeString(row.lengths)
		_, err := l.Lengths(bitmap)
		if err == nil {
			_, err = l.Parts(bitmap, lengths, nil)
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for _, schema := range []string{
		"", "{}", `{"fields":[]}`, `{"fields":[null]}`, `{"fields":[{"name":"a","type":"list","children":[null]}]}`, `{"fields":[{"name":"a","type":"utf8","children":[]},null]}`,
		`{"fields":[{"name":"a","type":"list"}]}`, `{"fields":[{"name":"a","type":"utf8","x":1}]}`, `{"fields":[{"name":"a","type":"utf8"}]} {}`,
	} {
		if _, err := rows.Unmarshal([]byte(schema)); err == nil {
			t.Errorf("schema %s: got no error", schema)
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add([]byte{4}, []byte{2, 0, 0, 0, 4, 0, 0, 0, 14, 0, 0, 0})
	f.Add([]byte{0x1e}, []byte{})
	l := layout(f, example())
	f.Fuzz(func(t *testing.T, bitmap, lengths []byte) {
		n, err := l.Lengths(bitmap)
		if err != nil {
			return
		}
		parts, err := l.Parts(bitmap, lengths, nil)
		if (err == nil) != (n == len(lengths)) && n != len(lengths) {
			t.Fatalf("bitmap %x has %d bytes of lengths, got %d: %v", bitmap, n, len(lengths), err)
		}
		if err == nil && len(parts) > 5 {
			t.Fatalf("got %d parts", len(parts))
		}
	})
}

// TestAllNull checks that a row in which all values are null has one part, so that every form
// retains the sample. No column may have that part's name.
func TestAllNull(t *testing.T) {
	parts, err := layout(t, []*rows.Node{text("a"), structOf("s", text("b"))}).Parts([]byte{7}, nil, nil)
	if d := cmp.Diff([]rows.Part{{Path: "__null__"}}, parts); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if _, err := rows.NewLayout([]*rows.Node{text("__null__")}); err == nil {
		t.Error("a column of this name: got no error")
	}
}

func TestTypeNames(t *testing.T) {
	entry := &rows.Node{Type: "struct", Kind: rows.Struct, Children: []*rows.Node{text("key"), fixed("value", 4, true)}}
	fields := append(example(), &rows.Node{Name: "m", Type: "map", Kind: rows.List, Children: []*rows.Node{entry}})
	var got []string
	for _, f := range fields {
		got = append(got, f.TypeName())
	}
	want := []string{"int32", "struct<bytes: binary, path: utf8>", "list<float>", "list<utf8>", "map<utf8, int32>"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if a, b := rows.SealList(nil, 0, nil), make([]byte, 4); !bytes.Equal(a, b) {
		t.Errorf("got %x for an empty list", a)
	}
}

// TestLogicalTypesDiffer checks that columns with the same layout but different logical types make
// schemas different. The error must name both types.
func TestLogicalTypesDiffer(t *testing.T) {
	price := func(logical string) []*rows.Node {
		return []*rows.Node{{Name: "price", Type: "fixed_size_binary[9]", Logical: logical, Kind: rows.Fixed, Size: 9}}
	}
	first, err := rows.Marshal(price("decimal128(20, 2)"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := rows.Marshal(price("decimal128(20, 3)"))
	if err != nil || bytes.Equal(first, second) {
		t.Errorf("got %s for both, %v", second, err)
	}
	want := `column "price" is of type decimal128(20, 2) as fixed_size_binary[9] not null, and of type decimal128(20, 3) as`
	if _, err := rows.Merge(price("decimal128(20, 2)"), price("decimal128(20, 3)")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
