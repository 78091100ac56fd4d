package arrowbatch_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
)

// parse parses the JSON of an array.
func parse(t testing.TB, kind arrow.DataType, values string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, kind, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// labels returns a record batch with one dictionary column named "x". Its numbers may be invalid
// for the values.
func labels(t testing.TB, numbers string, values arrow.Array, nullable bool) arrow.RecordBatch {
	t.Helper()
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: values.DataType()}
	a := array.NewDictionaryArray(kind, parse(t, arrow.PrimitiveTypes.Int8, numbers), values)
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "x", Type: kind, Nullable: nullable}}, nil), []arrow.Array{a}, int64(a.Len()))
}

// TestDictionary_Rejects checks that invalid or oversized dictionaries are rejected with the
// column's name.
func TestDictionary_Rejects(t *testing.T) {
	texts := func(values string) arrow.Array { return parse(t, arrow.BinaryTypes.String, values) }
	all := func(m [][]byte) [][]byte { return m }
	for name, c := range map[string]struct {
		batches []arrow.RecordBatch
		keep    func([][]byte) [][]byte
		want    string
	}{
		"a number too high":     {[]arrow.RecordBatch{labels(t, `[0, 2]`, texts(`["a", "b"]`), true)}, all, `column "x": it has an index that is not in its dictionary`},
		"a number below 0":      {[]arrow.RecordBatch{labels(t, `[0, -1]`, texts(`[""`+strings.Repeat(`, "a"`, 255)+`]`), true)}, all, `column "x": it has an index that is not in its dictionary`},
		"no dictionary":         {[]arrow.RecordBatch{labels(t, `[0]`, texts(`["a"]`), true)}, func(m [][]byte) [][]byte { return m[1:] }, `column "x": its dictionary does not come before`},
		"a null among values":   {[]arrow.RecordBatch{labels(t, `[0, 1]`, texts(`["a", null]`), false)}, all, `column "x": it has a null, but its schema does not allow nulls`},
		"a delta without first": {[]arrow.RecordBatch{labels(t, `[0]`, texts(`["a"]`), true), labels(t, `[1]`, texts(`["a", "b"]`), true)}, func(m [][]byte) [][]byte { return m[2:] }, `column "x": it continues a dictionary that does not precede it`},
		"gigabytes promised":    {[]arrow.RecordBatch{labels(t, `[0]`, array.NewNull(1<<30), true)}, all, `column "x": the dictionaries of the file have more than 67108864 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			schema, m := messages(t, stream(t, []ipc.Option{ipc.WithDictionaryDeltas(true)}, c.batches...))
			var was, is runtime.MemStats
			runtime.ReadMemStats(&was)
			_, err := rowsOf(schema, c.keep(m))
			runtime.ReadMemStats(&is)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if taken := is.TotalAlloc - was.TotalAlloc; taken > 1<<20 {
				t.Errorf("took %d bytes of memory", taken)
			}
		})
	}
}

// TestParams_ContainUsedValues checks that a chunk's parameters contain exactly the values used by
// its rows, and that invalid parameters are rejected.
func TestParams_ContainUsedValues(t *testing.T) {
	schema, m := messages(t, stream(t, nil, labels(t, `[3, 1, null, 3]`, parse(t, arrow.BinaryTypes.String, `["unused", "b", "none", null]`), true)))
	params, stored := chunk(t, schema, m)
	if s := string(params); strings.Contains(s, "unused") || strings.Contains(s, "none") || !strings.Contains(s, "b") {
		t.Errorf("got parameters %q, want those of the values that are used", params)
	}
	want := "\x01" + "\x00\x01\x00\x00\x00b" + "\x01" + "\x01"
	rows := make([]byte, len(want))
	if err := arrowbatch.Decode(params, stored, rows, nil); err != nil || string(rows) != want {
		t.Errorf("got %q, %v, want %q", rows, err, want)
	}
	at := strings.Index(string(params), "\x02\x01\x00\x00\x00\x03\x00\x00\x00") // the numbers of the two values
	if at < 0 {
		t.Fatalf("parameters %q do not have two values", params)
	}
	for name, change := range map[string]struct {
		at int
		to byte
	}{
		"one value more than there is room for": {at, 200}, "numbers that do not ascend": {at + 1, 3}, "a number that no row has": {at + 1, 2},
		"a value that ends behind the last": {at + 9, 200}, "a null with a value": {at + 12, 0x80},
	} {
		b := []byte(string(params))
		b[change.at] = change.to
		if err := arrowbatch.Decode(b, stored, make([]byte, len(want)), nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
