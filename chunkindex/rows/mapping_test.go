package rows_test

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/rowstest"
)

// vary returns the schema of another file of a dataset: fields in another order, without some of
// them, with other nullability, or always null.
func vary(r *rapid.T, fields []*rows.Node) []*rows.Node {
	var other []*rows.Node
	for _, f := range rapid.Permutation(fields).Draw(r, "order") {
		n := *f
		switch rapid.IntRange(0, 4).Draw(r, "change") {
		case 0:
			continue
		case 1:
			n.Nullable = !n.Nullable
		case 2:
			n = rows.Node{Name: f.Name, Type: "int32", Logical: "null", Kind: rows.Fixed, Size: 4, Nullable: true}
		}
		if n.Kind == rows.Struct {
			n.Children = vary(r, n.Children)
		}
		other = append(other, &n)
	}
	if len(other) == 0 {
		return fields
	}
	return other
}

// complete adds the columns of a dataset that a row of a file lacks, as null.
func complete(fields []*rows.Node, row map[string]any) map[string]any {
	all := map[string]any{}
	for _, f := range fields {
		v := row[f.Name]
		if inside, ok := v.(map[string]any); ok && f.Kind == rows.Struct {
			v = complete(f.Children, inside)
		}
		all[f.Name] = v
	}
	return all
}

// TestMapping converts rows of random files to the schema that they have together.
func TestMapping(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		file := drawFields(r, 0)
		other := vary(r, file)
		pair := [][]*rows.Node{file, other}
		if rapid.Bool().Draw(r, "swap") {
			pair[0], pair[1] = other, file
		}
		dataset, err := rows.Merge(pair[0], pair[1])
		if err != nil {
			r.Fatal(err)
		}
		node := &rows.Node{Name: "partition", Type: "utf8", Kind: rows.Bytes, Nullable: true}
		number := &rows.Node{Name: "year", Type: "int32", Kind: rows.Fixed, Size: 4, Nullable: true}
		absent := &rows.Node{Name: "absent", Type: "utf8", Kind: rows.Bytes, Nullable: true}
		dataset = append(dataset, node, number, absent)
		constants := []rows.Constant{{Node: node, Value: []byte("cat")}, {Node: number, Value: binary.LittleEndian.AppendUint32(nil, 2024)}, {Node: absent}}
		for _, f := range pair {
			m, err := rows.NewMapping(dataset, f, constants)
			if err != nil {
				r.Fatal(err)
			}
			stored := m.Append([]byte("x"))
			read, rest, err := rows.CutMapping(append(stored[1:], "rest"...))
			if err != nil || string(rest) != "rest" {
				r.Fatalf("got %q left, %v", rest, err)
			}
			b, step := rows.NewBuilder(layout(t, f)), 0
			if err := b.Map(read); err != nil {
				r.Fatal(err)
			}
			b.Reset()
			want := complete(dataset, drawRow(r, b, f, &step))
			want["partition"], want["year"] = []byte("cat"), []byte{0xe8, 7, 0, 0}
			encoded, err := b.Append([]byte("before"), rows.MaxRow)
			if err != nil {
				r.Fatal(err)
			}
			if _, err := b.Append(nil, int64(len(encoded)-7)); err == nil {
				r.Fatal("got no error beyond the limit")
			}
			got, rest, err := rowstest.Row(dataset, encoded[6:])
			if err != nil || len(rest) > 0 || !reflect.DeepEqual(want, got) {
				r.Fatalf("%v, %d bytes left (-want +got):\n%s", err, len(rest), cmp.Diff(want, got))
			}
			checkParts(r, layout(t, dataset), encoded[6:])
		}
	})
}

// TestNewMapping_ReturnsNilForTheSameRows checks that files with the schema of the dataset are not
// converted, so their bytes do not depend on other files.
func TestNewMapping_ReturnsNilForTheSameRows(t *testing.T) {
	always := &rows.Node{Name: "always", Type: "int32", Logical: "null", Kind: rows.Fixed, Size: 4, Nullable: true}
	fields := append(example(), always)
	dataset, err := rows.Merge(fields, fields)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := rows.NewMapping(dataset, fields, nil); m != nil || err != nil {
		t.Errorf("got %v, %v, want no mapping", m, err)
	}
	other := example()
	other[0].Nullable = true
	if m, err := rows.NewMapping(append(other, always), fields, nil); m == nil || err != nil {
		t.Errorf("another nullability: got %v, %v, want a mapping", m, err)
	}
}

func TestMerge_RefusesOtherTypes(t *testing.T) {
	list := func(element *rows.Node) *rows.Node { return listOf("c", element) }
	wide := fixed("c", 8, true)
	wide.Type = "int64"
	for want, pair := range map[string][2]*rows.Node{
		`column "c" is of type int32 not null, and of type int64`: {fixed("c", 4, false), wide},
		`column "c" is of type utf8, and of type int32`:           {text("c"), fixed("c", 4, true)},
		`column "c.d" is of type utf8, and of type int32`:         {structOf("c", text("d")), structOf("c", fixed("d", 4, true))},
		`column "c" is of type list<utf8>, and of type list<int`:  {list(text("")), list(fixed("", 4, true))},
		`column "c" is of type list<struct<d: utf8>>, and of typ`: {list(structOf("", text("d"))), list(structOf("", text("d"), text("e")))},
	} {
		if _, err := rows.Merge([]*rows.Node{pair[0]}, []*rows.Node{pair[1]}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	one, two := list(fixed("", 4, true)), list(fixed("", 4, false))
	if m, err := rows.Merge([]*rows.Node{two}, []*rows.Node{one}); err != nil || !m[0].Children[0].Nullable {
		t.Errorf("elements that may be null in one file: got %v, %v", m, err)
	}
}

// FuzzCutMapping reads any bytes as a mapping, and converts a row with it.
func FuzzCutMapping(f *testing.F) {
	m, err := rows.NewMapping(append(example(), text("added")), example(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Append(nil))
	f.Add([]byte{1, 3, 2, 'a', 'b'})
	f.Fuzz(func(t *testing.T, stored []byte) {
		m, _, err := rows.CutMapping(stored)
		if err != nil {
			return
		}
		b := rows.NewBuilder(layout(t, example()))
		if b.Map(m) != nil {
			return
		}
		b.Reset()
		b.Fixed([]byte("1234"))
		for _, step := range []int{1, 4, 5} {
			b.Null(step)
		}
		if _, err := b.Append(nil, 1<<20); err != nil && len(stored) < 1<<10 {
			t.Fatal(err)
		}
	})
}

// TestMerge_KeepsCommonTypesOfArrow: a column has the types of Arrow that both files declare, also
// inside lists.
func TestMerge_KeepsCommonTypesOfArrow(t *testing.T) {
	file := func(arrow, extension string) []*rows.Node {
		text := func() *rows.Node {
			return &rows.Node{Name: "text", Type: "utf8", Arrow: arrow, Extension: []string{"kind", extension}, Kind: rows.Bytes}
		}
		element := &rows.Node{Type: "struct", Kind: rows.Struct, Children: []*rows.Node{text()}}
		return []*rows.Node{text(), {Name: "list", Type: "list", Arrow: "large_list", Kind: rows.List, Children: []*rows.Node{element}}}
	}
	for _, c := range []struct{ want, other []*rows.Node }{
		{file("large_utf8", "a"), file("large_utf8", "a")},
		{file("", ""), file("utf8_view", "a")},
		{file("", ""), file("large_utf8", "b")},
	} {
		got, err := rows.Merge(file("large_utf8", "a"), c.other)
		if err != nil || got[1].Arrow != "large_list" {
			t.Fatalf("got %+v, %v", got, err)
		}
		for i, n := range []*rows.Node{got[0], got[1].Children[0].Children[0]} {
			if n.Arrow != c.want[0].Arrow || (n.Extension == nil) != (n.Arrow == "") {
				t.Errorf("text %d: got %q of %q", i, n.Arrow, n.Extension)
			}
		}
	}
}
