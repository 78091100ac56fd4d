package arrowbatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/rowstest"
)

// column is a column of a test: its type, and its values as JSON.
type column struct {
	kind   arrow.DataType
	values string
}

// columns returns columns of every layout. Their values include nulls at various positions.
func columns() []column {
	inner := arrow.StructOf(arrow.Field{Name: "role", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "n", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true})
	return []column{
		{arrow.FixedWidthTypes.Boolean, `[null, true, false, true]`},
		{arrow.PrimitiveTypes.Int8, `[1, null, -3, 4]`},
		{arrow.PrimitiveTypes.Uint16, `[1, 2, 65535, null]`},
		{arrow.PrimitiveTypes.Int64, `[1, null, -9223372036854775808, 4]`},
		{arrow.PrimitiveTypes.Float64, `[0.5, null, -1.25, 4]`},
		{arrow.FixedWidthTypes.Date32, `["2020-01-02", null, "1969-12-31", "2000-02-29"]`},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `["2020-01-02T03:04:05.000006Z", null, null, "1969-12-31T00:00:00Z"]`},
		{&arrow.Decimal128Type{Precision: 20, Scale: 2}, `["1.25", null, "-3.50", "12345678901234567.89"]`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", null, "eHl6", "MTIz"]`},
		{arrow.BinaryTypes.String, `["", null, "é", "abc"]`},
		{arrow.BinaryTypes.LargeString, `[null, "", "xyz", "a"]`},
		{arrow.BinaryTypes.Binary, `["AAE=", "", null, "Ag=="]`},
		{arrow.BinaryTypes.StringView, `["short", null, "a text that is longer than a view", ""]`},
		{arrow.ListOf(arrow.PrimitiveTypes.Float32), `[[1, 2], null, [], [3]]`},
		{arrow.LargeListOf(arrow.PrimitiveTypes.Int16), `[[], [1], null, [2, 3]]`},
		{arrow.ListOf(arrow.FixedWidthTypes.Boolean), `[[true, false], null, [], [true]]`},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2], null, [5, 6], [7, 8]]`},
		{arrow.ListOf(arrow.BinaryTypes.String), `[["a", null, ""], null, [], ["bc"]]`},
		{arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32)), `[[[1], [], null], null, [], [[2, 3]]]`},
		{arrow.ListOf(inner), `[[{"role": "u", "n": [1, 2]}, null, {"role": null, "n": null}], null, [], [{"role": "a", "n": []}]]`},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), `[[{"key": "k", "value": 1}, {"key": "l", "value": null}], null, [], [{"key": "", "value": 2}]]`},
		{inner, `[{"role": "u", "n": [1]}, null, {"role": null, "n": null}, {"role": "", "n": []}]`},
		{arrow.Null, `[null, null, null, null]`},
		{coded(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String), `["cat", null, "dog", "cat"]`},
		{coded(arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int64), `[-1, 7, null, 7]`},
		{coded(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64), `[0.5, null, 2, 0.5]`},
		{arrow.ListOf(coded(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)), `[["a", null, ""], null, [], ["a"]]`},
		{arrow.ListOf(coded(arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Float32)), `[[1, 2, 1], null, [], [2]]`},
		{arrow.StructOf(arrow.Field{Name: "label", Type: coded(arrow.PrimitiveTypes.Uint32, &arrow.FixedSizeBinaryType{ByteWidth: 3}), Nullable: true}), `[{"label": "YWJj"}, null, {"label": null}, {"label": "YWJj"}]`},
	}
}

// coded returns a dictionary type with these types of numbers and values.
func coded(index, value arrow.DataType) arrow.DataType {
	return &arrow.DictionaryType{IndexType: index, ValueType: value}
}

// record returns a record batch that contains all columns.
func record(t testing.TB) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for i, c := range columns() {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.kind, strings.NewReader(c.values))
		if err != nil {
			t.Fatalf("%v: %v", c.kind, err)
		}
		fields, arrays = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: c.kind, Nullable: true}), append(arrays, a)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, 4)
}

// stream writes record batches as a stream.
func stream(t testing.TB, options []ipc.Option, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, append(options, ipc.WithSchema(batches[0].Schema()))...)
	for _, batch := range batches {
		if err := w.Write(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// messages splits a stream into its schema and its other messages. The dictionaries are first.
func messages(t testing.TB, b []byte) (*arrowbatch.Schema, [][]byte) {
	t.Helper()
	var schema *arrowbatch.Schema
	var batches [][]byte
	for {
		n, err := arrowbatch.HeadLength(b)
		if errors.Is(err, io.EOF) {
			return schema, batches
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := arrowbatch.ParseMessage(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == arrowbatch.KindSchema {
			if schema, err = m.ParseSchema(); err != nil {
				t.Fatal(err)
			}
		} else {
			batches = append(batches, b[:m.Head+m.Body])
		}
		b = b[m.Head+m.Body:]
	}
}

// rowsOf returns the decoded rows of record batches.
func rowsOf(schema *arrowbatch.Schema, batches [][]byte) ([]byte, error) {
	d := arrowbatch.NewDecoder(schema, 1<<20)
	defer d.Close()
	var out []byte
	for _, b := range batches {
		if dictionary(b) {
			if err := d.Dictionary(b, true); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.Begin(b); err != nil {
			return nil, err
		}
		at := len(out)
		for {
			var err error
			if out, err = d.Next(out, 1<<20); errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if err := d.Fits(int64(len(out) - at)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dictionary reports whether the bytes of a message are a dictionary.
func dictionary(b []byte) bool {
	n, err := arrowbatch.HeadLength(b)
	if err != nil || n > int64(len(b)) {
		return false
	}
	m, err := arrowbatch.ParseMessage(b[:n])
	return err == nil && m.Kind == arrowbatch.KindDictionary
}

// chunk joins record batches into a chunk. It inserts a gap before each batch except the first. It
// returns the parameters and the stored bytes of the chunk.
func chunk(t testing.TB, schema *arrowbatch.Schema, messages [][]byte) (params, stored []byte) {
	t.Helper()
	d := arrowbatch.NewDecoder(schema, 1<<20)
	defer d.Close()
	var batches []arrowbatch.Batch
	for _, b := range messages {
		if dictionary(b) {
			if err := d.Dictionary(b, true); err != nil {
				t.Fatal(err)
			}
			continue
		}
		one := arrowbatch.Batch{Length: int64(len(b))}
		if len(batches) > 0 {
			one.Gap, stored = 5, append(stored, "12345"...)
		}
		if err := d.Begin(b); err != nil {
			t.Fatal(err)
		}
		var err error
		for dst := []byte{}; err == nil; {
			dst, err = d.Next(dst[:0], 1<<20)
		}
		if one.Dictionaries, err = d.Used(); err != nil {
			t.Fatal(err)
		}
		batches, stored = append(batches, one), append(stored, b...)
	}
	return schema.Params(batches), stored
}

// TestDecode_MatchesArrow compares the decoded rows of every type, plain and compressed, with the
// values that Arrow's own library reads.
func TestDecode_MatchesArrow(t *testing.T) {
	whole := record(t)
	for name, options := range map[string][]ipc.Option{"plain": nil, "lz4": {ipc.WithLZ4()}, "zstd": {ipc.WithZstd()}} {
		t.Run(name, func(t *testing.T) {
			schema, batches := messages(t, stream(t, options, whole, whole.NewSlice(1, 3), whole.NewSlice(0, 0)))
			decoded, err := rowsOf(schema, batches)
			if err != nil {
				t.Fatal(err)
			}
			rest := decoded
			for _, i := range []int{0, 1, 2, 3, 1, 2} {
				var row map[string]any
				if row, rest, err = rowstest.Row(schema.Fields, rest); err != nil {
					t.Fatal(err)
				}
				for c, f := range whole.Schema().Fields() {
					if d := cmp.Diff(physical(t, whole.Column(c), i), row[f.Name]); d != "" {
						t.Errorf("row %d, column %v: %s", i, f.Type, d)
					}
				}
			}
			if len(rest) > 0 {
				t.Errorf("got %d bytes after the last row", len(rest))
			}
			params, stored := chunk(t, schema, batches)
			again := make([]byte, len(decoded))
			if err := arrowbatch.Decode(params, stored, again, nil); err != nil || !bytes.Equal(again, decoded) {
				t.Errorf("got %v and other rows from the parameters of a chunk", err)
			}
			for _, dst := range [][]byte{make([]byte, len(decoded)-1), make([]byte, len(decoded)+1)} {
				if err := arrowbatch.Decode(params, stored, dst, nil); err == nil {
					t.Errorf("%d bytes for rows of %d: got no error", len(dst), len(decoded))
				}
			}
		})
	}
}

// physical returns a value in the representation of rowstest.
func physical(t *testing.T, a arrow.Array, i int) any {
	t.Helper()
	if _, none := a.(*array.Null); none || a.IsNull(i) {
		return nil
	}
	elements := func(values arrow.Array, from, to int64) any {
		list := []any{}
		for k := from; k < to; k++ {
			list = append(list, physical(t, values, int(k)))
		}
		return list
	}
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(i) {
			return []byte{1}
		}
		return []byte{0}
	case *array.String:
		return []byte(a.Value(i))
	case *array.LargeString:
		return []byte(a.Value(i))
	case *array.StringView:
		return []byte(a.Value(i))
	case *array.Binary:
		return a.Value(i)
	case *array.Struct:
		row := map[string]any{}
		for k := range a.NumField() {
			row[a.DataType().(*arrow.StructType).Field(k).Name] = physical(t, a.Field(k), i)
		}
		return row
	case *array.Dictionary:
		return physical(t, a.Dictionary(), a.GetValueIndex(i))
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		return elements(a.ListValues(), from, to)
	}
	width := a.DataType().(arrow.FixedWidthDataType).Bytes()
	at := (a.Data().Offset() + i) * width
	return a.Data().Buffers()[1].Bytes()[at : at+width]
}

// TestParseSchema_TypeNames checks that types have the same names as in Parquet, independent of
// their layout.
func TestParseSchema_TypeNames(t *testing.T) {
	schema, _ := messages(t, stream(t, nil, record(t)))
	var got []string
	for _, f := range schema.Fields {
		got = append(got, f.TypeName())
	}
	want := []string{
		"bool", "int8", "uint16", "int64", "double", "date32", "timestamp[us, tz=UTC]", "decimal128(20, 2)", "fixed_size_binary[3]", "utf8", "utf8", "binary", "utf8",
		"list<float>", "list<int16>", "list<bool>", "list<float>", "list<utf8>", "list<list<int32>>", "list<struct<role: utf8, n: list<int32>>>", "map<utf8, int64>",
		"struct<role: utf8, n: list<int32>>", "null", "utf8", "int64", "double", "list<utf8>", "list<float>", "struct<label: fixed_size_binary[3]>",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestParseSchema_RejectsUnsupported checks that unsupported types are rejected with the column's
// name and advice.
func TestParseSchema_RejectsUnsupported(t *testing.T) {
	for want, kind := range map[string]arrow.DataType{
		`column "x": it has a dictionary of lists, structs or maps`: coded(arrow.PrimitiveTypes.Int8, arrow.ListOf(arrow.PrimitiveTypes.Int8)),
		`column "x": unions, run-end encoding`:                      arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
		`column "x" is a list of nulls`:                             arrow.ListOf(arrow.Null),
	} {
		var b bytes.Buffer
		w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema([]arrow.Field{{Name: "x", Type: kind, Nullable: true}}, nil)))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		n, err := arrowbatch.HeadLength(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		m, err := arrowbatch.ParseMessage(b.Bytes()[:n])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ParseSchema(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestDecode_RejectsNullsInNumberLists: rows cannot represent a null inside a list of numbers.
func TestDecode_RejectsNullsInNumberLists(t *testing.T) {
	a, _, err := array.FromJSON(memory.DefaultAllocator, arrow.ListOf(arrow.PrimitiveTypes.Int32), strings.NewReader(`[[1], [2, null, 3]]`))
	if err != nil {
		t.Fatal(err)
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType(), Nullable: true}}, nil)
	schema, batches := messages(t, stream(t, nil, array.NewRecordBatch(s, []arrow.Array{a}, 2)))
	if _, err := rowsOf(schema, batches); err == nil || !strings.Contains(err.Error(), `column "x": a list of fixed-size values has a null`) {
		t.Errorf("got %v, want a refusal by name", err)
	}
}

// FuzzDecode decodes arbitrary bytes with an arbitrary schema. The decoder must return rows or an
// error, and use little memory.
func FuzzDecode(f *testing.F) {
	for _, options := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		b := stream(f, options, record(f))
		schema, batches := messages(f, b)
		params, stored := chunk(f, schema, batches)
		f.Add(b, params, stored, batches[0])
	}
	f.Fuzz(func(t *testing.T, head, params, stored, before []byte) {
		if n, err := arrowbatch.HeadLength(head); err == nil && n <= int64(len(head)) {
			if m, err := arrowbatch.ParseMessage(head[:n]); err == nil && m.Kind == arrowbatch.KindSchema {
				if s, err := m.ParseSchema(); err == nil {
					if _, err := rows.NewLayout(s.Fields); err == nil {
						_, _ = rowsOf(s, [][]byte{before, stored})
					}
				}
			}
		}
		_, _ = arrowbatch.ParseFooter(head)
		_ = arrowbatch.Decode(params, stored, make([]byte, 1<<12), nil)
	})
}

// TestDecode_DamagedBatches checks that flipped bits cause neither a panic nor an endless number of
// rows.
func TestDecode_DamagedBatches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, options := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		schema, batches := messages(t, stream(t, options, record(t)))
		params, stored := chunk(t, schema, batches)
		for range 1000 {
			b, p := bytes.Clone(stored), bytes.Clone(params)
			for range 1 + random.IntN(3) {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			if random.IntN(3) == 0 {
				p[random.IntN(len(p))] ^= 1 << random.IntN(8)
			}
			_ = arrowbatch.Decode(p, b, make([]byte, 1<<12), nil)
			all := make([][]byte, len(batches))
			for i := range all {
				all[i] = bytes.Clone(batches[i])
			}
			damaged := all[random.IntN(len(all))]
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
			_, _ = rowsOf(schema, all)
		}
	}
}
