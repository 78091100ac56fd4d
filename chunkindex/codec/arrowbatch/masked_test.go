package arrowbatch_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestDecode_NullsInNonNullableFields: in a field that is not nullable, nulls are valid inside a
// null struct, where arrow-go writes them. Elsewhere they must be rejected.
func TestDecode_NullsInNonNullableFields(t *testing.T) {
	number := arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32}
	for _, c := range []struct {
		kind   arrow.DataType
		values string
		want   string // expected rows, or the error text
	}{
		{arrow.StructOf(number), `[{"n": 1}, null, {"n": 2}]`, "\x00\x01\x00\x00\x00" + "\x01" + "\x00\x02\x00\x00\x00"},
		{arrow.StructOf(number), `[{"n": 1}, {"n": null}]`, `column "n": it has a null, but its schema does not allow nulls`},
		{arrow.ListOf(arrow.StructOf(number)), `[[{"n": 1}, null], null]`, "\x00\x0a\x00\x00\x00" + "\x02\x00\x00\x00\x02" + "\x00\x01\x00\x00\x00" + "\x01"},
		{arrow.ListOf(arrow.StructOf(number)), `[[{"n": null}]]`, `column "n": it has a null, but its schema does not allow nulls`},
		{arrow.ListOfNonNullable(arrow.BinaryTypes.String), `[["a", null]]`, `column "x": it has a null, but its schema does not allow nulls`},
	} {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.kind, strings.NewReader(c.values))
		if err != nil {
			t.Fatal(err)
		}
		s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType(), Nullable: true}}, nil)
		schema, batches := messages(t, stream(t, nil, array.NewRecordBatch(s, []arrow.Array{a}, int64(a.Len()))))
		got, err := rowsOf(schema, batches)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != c.want {
			t.Errorf("%s: got %q, want %q", c.values, got, c.want)
		}
	}
}
