package arrow_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/rows"
	ours "github.com/millrace-data/millrace/gateway/body/arrow"
)

// chat returns a list of structs with a struct, a text, a boolean and a list of numbers.
func chat() *rows.Node {
	turn := &rows.Node{Type: "struct", Kind: rows.Struct, Nullable: true, Children: []*rows.Node{
		{Name: "who", Type: "struct", Kind: rows.Struct, Nullable: true, Children: []*rows.Node{{Name: "name", Type: "utf8", Kind: rows.Bytes, Nullable: true}}},
		{Name: "text", Type: "utf8", Kind: rows.Bytes, Nullable: true},
		{Name: "ok", Type: "bool", Kind: rows.Fixed, Size: 1},
		{Name: "tokens", Type: "list", Kind: rows.List, Nullable: true, Children: []*rows.Node{{Type: "int32", Logical: "int8", Kind: rows.Fixed, Size: 4}}},
	}}
	return &rows.Node{Name: "chat", Type: "list", Kind: rows.List, Nullable: true, Children: []*rows.Node{turn}}
}

// TestBuilder_SeparatesFields builds the columns of a nested value of docs/spec/rows.md.
func TestBuilder_SeparatesFields(t *testing.T) {
	value := []byte("\x02\x00\x00\x00\x02" + "\x03\x02\x00\x00\x00\x04\x00\x00\x00hi\x01\x07\x00\x00\x00")
	b := ours.NewBuilder(chat())
	if err := b.Add(value); err != nil {
		t.Fatal(err)
	}
	b.Measured()
	if err := b.Add(value); err != nil {
		t.Fatal(err)
	}
	turn := b.Children[0]
	text, ok, tokens := turn.Children[1], turn.Children[2], turn.Children[3]
	got := []any{b.Lengths, turn.Null, text.Lengths, string(text.Values), text.Null, ok.Values, ok.Null, tokens.Lengths, tokens.Children[0].Values}
	want := []any{[]uint32{2}, []bool{false, true}, []uint32{2, 0}, "hi", []bool{false, true}, []byte{1}, []bool(nil), []uint32{1, 0}, []byte{7}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := b.Add(value[:len(value)-1]); !errors.Is(err, ours.ErrUnfit) {
		t.Errorf("a truncated value: got %v", err)
	}
}

// build returns the builder of a node with these values.
func build(t *testing.T, n *rows.Node, values ...string) (*ours.Builder, error) {
	t.Helper()
	b := ours.NewBuilder(n)
	for _, v := range values {
		if err := b.Add([]byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	b.Measured()
	var err error
	for _, v := range values {
		err = errors.Join(err, b.Add([]byte(v)))
	}
	return b, err
}

// TestBuilder_NumbersValues: a dictionary has each value once, and a null has no value. It refuses
// more values than its numbers can refer to.
func TestBuilder_NumbersValues(t *testing.T) {
	n := &rows.Node{Type: "utf8", Arrow: "dictionary<int8, large_utf8>", Kind: rows.Bytes, Nullable: true}
	b, err := build(t, n, "cat", "", "cat", "dog")
	b.Skip()
	got := []any{err, b.Values, b.Null, b.Dictionary.Rows, b.Dictionary.Lengths, string(b.Dictionary.Values)}
	want := []any{nil, []byte{0, 1, 0, 2, 0}, []bool{false, false, false, false, true}, 3, []uint32{3, 0, 3}, "catdog"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var many []string
	for i := range 129 {
		many = append(many, strconv.Itoa(i))
	}
	if _, err := build(t, n, many[:128]...); err != nil {
		t.Errorf("128 values: got %v", err)
	}
	if _, err := build(t, n, many...); !errors.Is(err, ours.ErrUnfit) {
		t.Errorf("129 values: got %v, want that they are too many", err)
	}
}

// TestBuilder_PlacesViews: values of up to 12 bytes are in their views, and longer ones are not.
func TestBuilder_PlacesViews(t *testing.T) {
	b, err := build(t, &rows.Node{Type: "utf8", Arrow: "utf8_view", Kind: rows.Bytes}, "twelve bytes", "thirteen byte")
	want := "\x0c\x00\x00\x00twelve bytes" + "\x0d\x00\x00\x00thir\x00\x00\x00\x00\x00\x00\x00\x00"
	if err != nil || string(b.Values) != want || string(b.Data) != "thirteen byte" {
		t.Errorf("got %q and %q, %v", b.Values, b.Data, err)
	}
}

// TestBuilder_FillsNullLists: a null list of a fixed size has elements, and another size is refused.
func TestBuilder_FillsNullLists(t *testing.T) {
	n := &rows.Node{Type: "list", Arrow: "fixed_size_list[2]", Kind: rows.List, Nullable: true, Children: []*rows.Node{{Type: "bool", Kind: rows.Fixed, Size: 1}}}
	b, err := build(t, n, "\x01\x01")
	b.Skip()
	if element := b.Children[0]; err != nil || element.Rows != 4 || !bytes.Equal(element.Values, []byte{3}) {
		t.Errorf("got %d elements %x, %v", element.Rows, element.Values, err)
	}
	if err := b.Add([]byte{1}); !errors.Is(err, ours.ErrUnfit) {
		t.Errorf("one element: got %v", err)
	}
}

// TestBuilder_RefusesDamage: no bytes make the builder panic, and the sizes of both passes are equal.
func TestBuilder_RefusesDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := slices.Concat([]byte{rapid.ByteRange(0, 9).Draw(t, "count"), 0, 0, 0}, rapid.SliceOfN(rapid.ByteRange(0, 5), 0, 60).Draw(t, "value"))
		b := ours.NewBuilder(chat())
		first := b.Add(value)
		size := b.Size()
		b.Measured()
		if again := b.Add(value); (first == nil) != (again == nil) || b.Size() != size {
			t.Errorf("%x: got %v of %d bytes, then %v of %d", value, first, size, again, b.Size())
		}
	})
}
