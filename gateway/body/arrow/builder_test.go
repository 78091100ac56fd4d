package arrow_test

import (
	"errors"
	"slices"
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
	b := ours.NewBuilder(chat(), true)
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

// TestBuilder_RefusesDamage: no bytes make the builder panic, and the sizes of both passes are equal.
func TestBuilder_RefusesDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := slices.Concat([]byte{rapid.ByteRange(0, 9).Draw(t, "count"), 0, 0, 0}, rapid.SliceOfN(rapid.ByteRange(0, 5), 0, 60).Draw(t, "value"))
		b := ours.NewBuilder(chat(), true)
		first := b.Add(value)
		size := b.Size()
		b.Measured()
		if again := b.Add(value); (first == nil) != (again == nil) || b.Size() != size {
			t.Errorf("%x: got %v of %d bytes, then %v of %d", value, first, size, again, b.Size())
		}
	})
}
