package body

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway/body/arrow"
)

// someColumns returns the columns of three samples. The second sample lacks "n", and the third
// lacks "t".
func someColumns() *columns {
	number, text := part{Part: chunkindex.Part{Ext: "n", Offset: 1, Length: 4}}, part{Part: chunkindex.Part{Ext: "t", Offset: 5, Length: 3}}
	c := &columns{
		t:     texts{keys: []string{"a", "b", "c"}, parts: [][]part{{number, text}, {text}, {number, {Part: chunkindex.Part{Ext: "more"}}}}},
		names: []string{"t", "n"},
		types: map[string]format.Field{"n": {Name: "n", Encoding: format.Raw, Type: "float", Nullable: true}, "t": {Name: "t", Encoding: format.Raw, Type: "utf8"}},
	}
	c.plan()
	c.locate()
	return c
}

// TestNullsHaveTheirRoom: a missing value of a fixed size is written as zeros, and a missing value
// of variable length is omitted.
func TestNullsHaveTheirRoom(t *testing.T) {
	c, b := someColumns(), NewPool().Get()
	for i, want := range [][]int32{{1, 0, -1}, {0, -1, 0}} {
		if d := cmp.Diff(want, c.all[i].parts); d != "" {
			t.Fatal(d)
		}
		b.putParts(c.t, c.all[i])
	}
	want := []piece{
		{sample: 0, offset: 5, length: 3},
		{sample: 1, offset: 5, length: 3},
		{sample: 0, offset: 1, length: 4},
		{sample: literal, length: 4},
		{sample: 2, offset: 1, length: 4},
	}
	if d := cmp.Diff(want, b.pieces, cmp.AllowUnexported(piece{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(b.text, make([]byte, 4)) {
		t.Errorf("got %x for what is missing, want zeros", b.text)
	}
	if n := c.all[1].zeros(); n != 4 {
		t.Errorf("got %d bytes of zeros, want 4", n)
	}
}

// TestColumnsSayWhatTheyLack checks the nulls of columns. A column becomes nullable if a sample lacks
// a required value.
func TestColumnsSayWhatTheyLack(t *testing.T) {
	c := someColumns()
	for i, want := range [][]bool{{false, false, true}, {false, true, false}} {
		n := c.all[i]
		if err := c.measure(n); err != nil || !cmp.Equal(n.Null, want) || !n.Nullable || n.Rows != 3 {
			t.Errorf("column %s: got %+v, nullable %v, %v, want %+v", n.Name, n.Null, n.Nullable, err, want)
		}
	}
	if d := cmp.Diff([]uint32{3, 3, 0}, c.all[0].Lengths); d != "" {
		t.Error(d)
	}
}

// TestColumnOfWhatArrowHasNoTypeFor: such a column contains the unchanged bytes, with metadata that
// describes them.
func TestColumnOfWhatArrowHasNoTypeFor(t *testing.T) {
	for _, c := range []struct {
		field format.Field
		want  arrow.Field
	}{
		{format.Field{Encoding: "mds:pil"}, arrow.Field{Type: arrow.Bytes(), Metadata: []arrow.Pair{{Key: "millrace:encoding", Value: "mds:pil"}}}},
		{format.Field{Encoding: format.JSON}, arrow.Field{Type: arrow.Text(), Metadata: []arrow.Pair{{Key: "millrace:encoding", Value: "json"}}}},
		{
			format.Field{Encoding: format.Raw, Type: "int96", Nullable: true},
			arrow.Field{Type: arrow.Bytes(), Nullable: true, Metadata: []arrow.Pair{{Key: "millrace:encoding", Value: "raw"}, {Key: "millrace:type", Value: "int96"}}},
		},
		{
			format.Field{Encoding: format.Nested, Type: "list<utf8>"},
			arrow.Field{Type: arrow.Bytes(), Metadata: []arrow.Pair{{Key: "millrace:encoding", Value: "nested"}, {Key: "millrace:type", Value: "list<utf8>"}}},
		},
	} {
		c.want.Name = "x.txt"
		columns := columns{types: map[string]format.Field{"x.txt": c.field}}
		if d := cmp.Diff(c.want, columns.field("x.txt"), cmp.AllowUnexported(arrow.Type{})); d != "" {
			t.Errorf("%+v: %s", c.field, d)
		}
	}
}
