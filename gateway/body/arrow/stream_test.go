package arrow_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	ours "github.com/millrace-data/millrace/gateway/body/arrow"
)

// kind is a type in our notation and in Arrow's library.
type kind struct {
	words string
	want  arrow.DataType // Arrow's type, without extension metadata
}

func kinds() []kind {
	return []kind{
		{"utf8", arrow.BinaryTypes.String},
		{"binary", arrow.BinaryTypes.Binary},
		{"bool", arrow.PrimitiveTypes.Int8},
		{"int8", arrow.PrimitiveTypes.Int8},
		{"int16", arrow.PrimitiveTypes.Int16},
		{"int32", arrow.PrimitiveTypes.Int32},
		{"int64", arrow.PrimitiveTypes.Int64},
		{"uint8", arrow.PrimitiveTypes.Uint8},
		{"uint16", arrow.PrimitiveTypes.Uint16},
		{"uint32", arrow.PrimitiveTypes.Uint32},
		{"uint64", arrow.PrimitiveTypes.Uint64},
		{"float16", arrow.FixedWidthTypes.Float16},
		{"float", arrow.PrimitiveTypes.Float32},
		{"double", arrow.PrimitiveTypes.Float64},
		{"date32", arrow.FixedWidthTypes.Date32},
		{"date64", arrow.FixedWidthTypes.Date64},
		{"time32[s]", arrow.FixedWidthTypes.Time32s},
		{"time32[ms]", arrow.FixedWidthTypes.Time32ms},
		{"time64[us]", arrow.FixedWidthTypes.Time64us},
		{"time64[ns]", arrow.FixedWidthTypes.Time64ns},
		{"timestamp[s]", &arrow.TimestampType{Unit: arrow.Second}},
		{"timestamp[ns]", &arrow.TimestampType{Unit: arrow.Nanosecond}},
		{"timestamp[ms, tz=Europe/Berlin]", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"}},
		{"timestamp[us, tz=UTC]", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{"duration[s]", arrow.FixedWidthTypes.Duration_s},
		{"duration[ns]", arrow.FixedWidthTypes.Duration_ns},
		{"decimal32(9, 2)", &arrow.Decimal32Type{Precision: 9, Scale: 2}},
		{"decimal64(18, 0)", &arrow.Decimal64Type{Precision: 18}},
		{"decimal128(38, -4)", &arrow.Decimal128Type{Precision: 38, Scale: -4}},
		{"decimal256(76, 10)", &arrow.Decimal256Type{Precision: 76, Scale: 10}},
		{"fixed_size_binary[5]", &arrow.FixedSizeBinaryType{ByteWidth: 5}},
		{"list<float>", arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32)},
		{"list<int8>", arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int8)},
		{"list<fixed_size_binary[3]>", arrow.ListOfNonNullable(&arrow.FixedSizeBinaryType{ByteWidth: 3})},
	}
}

// table is a table that is written to a stream and read back.
type table struct {
	rows    int
	fields  []ours.Field
	want    []arrow.DataType
	values  [][][]byte // nil: none
	columns []*ours.Column
}

// draw draws a table with any columns.
func draw(t *rapid.T) *table {
	w := &table{rows: rapid.IntRange(0, 40).Draw(t, "rows")}
	for range rapid.IntRange(1, 6).Draw(t, "columns") {
		k := rapid.SampledFrom(kinds()).Draw(t, "kind")
		kind, ok := ours.ParseType(k.words)
		if !ok {
			t.Fatalf("%s: got no type", k.words)
		}
		if kind.Width() > 0 && rapid.IntRange(0, 3).Draw(t, "array") == 0 {
			n := rapid.IntRange(1, 4).Draw(t, "length")
			if kind, ok = kind.Array([]uint64{uint64(n), 2}); !ok {
				t.Fatalf("%s: got no type of an array", k.words)
			}
			k.want = arrow.FixedSizeListOfNonNullable(int32(2*n), k.want)
		}
		f := ours.Field{Name: rapid.StringN(0, 20, -1).Draw(t, "name"), Type: kind, Nullable: rapid.Bool().Draw(t, "nullable")}
		if rapid.Bool().Draw(t, "noted") {
			f.Metadata = []ours.Pair{{Key: "note", Value: rapid.StringN(0, 20, -1).Draw(t, "note")}}
		}
		w.fields, w.want = append(w.fields, f), append(w.want, k.want)
		w.column(t, f)
	}
	return w
}

// column draws the values of a column.
func (w *table) column(t *rapid.T, f ours.Field) {
	lengths, null := make([]uint32, w.rows), []bool(nil)
	var values [][]byte
	for row := range w.rows {
		n := f.Type.Width()
		if n == 0 {
			n = rapid.IntRange(0, 12).Draw(t, "length") * 12 // a multiple of every element size of lists
		}
		v := rapid.SliceOfN(rapid.ByteRange('0', '9'), n, n).Draw(t, "value")
		if f.Nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
			v = nil
			if null == nil {
				null = make([]bool, w.rows)
			}
			null[row] = true
		}
		values, lengths[row] = append(values, v), uint32(len(v))
	}
	c := ours.NewColumn(f)
	if err := c.SetLengths(lengths, null); err != nil {
		t.Fatal(err)
	}
	w.values, w.columns = append(w.values, values), append(w.columns, c)
}

// stream writes the table like a gateway does.
func (w *table) stream(t *rapid.T) []byte {
	s, err := ours.NewWriter(w.rows, w.columns)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(s.Head())
	around := len(b)
	for _, c := range s.Columns() {
		b = append(b, c.Before()...)
		around += len(c.Before()) + len(c.After())
		n := slices.IndexFunc(w.columns, func(of *ours.Column) bool { return of.Holder() == c })
		for row := 0; n >= 0 && row < w.rows; row++ {
			v := w.values[n][row]
			if v == nil {
				v = make([]byte, w.fields[n].Type.Width())
			}
			b = append(b, v...)
		}
		b = append(b, c.After()...)
	}
	if most := ours.Most(w.columns, w.rows); int64(around+len(ours.End())) > most {
		t.Errorf("got %d bytes around the values, want at most %d", around, most)
	}
	return append(b, ours.End()...)
}

// TestArrowReadsTheStream writes streams with any columns and values, and compares them with what
// Arrow's own reader returns.
func TestArrowReadsTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		r, err := ipc.NewReader(bytes.NewReader(w.stream(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if got := r.Schema().NumFields(); got != len(w.fields) {
			t.Fatalf("got %d columns, want %d", got, len(w.fields))
		}
		if !r.Next() {
			t.Fatalf("got no record batch: %v", r.Err())
		}
		batch := r.RecordBatch()
		if got := batch.NumRows(); got != int64(w.rows) {
			t.Errorf("got %d rows, want %d", got, w.rows)
		}
		for i := range w.fields {
			w.compare(t, i, r.Schema().Field(i), batch.Column(i))
		}
		if r.Next() || r.Err() != nil {
			t.Errorf("got %v after the record batch, want the end", r.Err())
		}
	})
}

// compare compares a column that Arrow read with the one that was written.
func (w *table) compare(t *rapid.T, i int, got arrow.Field, column arrow.Array) {
	f := w.fields[i]
	if kind := storage(got.Type); got.Name != f.Name || got.Nullable != f.Nullable || !arrow.TypeEqual(kind, w.want[i]) {
		t.Errorf("column %d: got %v of %v, nullable %v, want %v of %v, nullable %v", i, got.Name, kind, got.Nullable, f.Name, w.want[i], f.Nullable)
	}
	for _, p := range f.Metadata {
		if v, ok := got.Metadata.GetValue(p.Key); !ok || v != p.Value {
			t.Errorf("column %d: got %v as %s, want %q", i, got.Metadata, p.Key, p.Value)
		}
	}
	nulls := 0
	for row, v := range w.values[i] {
		if v == nil {
			nulls++
		}
		if null := column.IsNull(row); null != (v == nil) {
			t.Errorf("column %d, row %d: got null %v, want %v", i, row, null, v == nil)
		} else if b := valueOf(t, column, row); v != nil && !bytes.Equal(b, v) {
			t.Errorf("column %d of %v, row %d: got %q, want %q", i, column.DataType(), row, b, v)
		}
	}
	if got := column.NullN(); got != nulls {
		t.Errorf("column %d: got %d nulls, want %d", i, got, nulls)
	}
}

// storage returns the type in which an extension type is stored.
func storage(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return t
}

// valueOf returns the bytes of a value.
func valueOf(t *rapid.T, column arrow.Array, row int) []byte {
	if e, ok := column.(array.ExtensionArray); ok {
		column = e.Storage()
	}
	whole := func(a arrow.Array, from, to int64) []byte {
		if from == to {
			return nil // Buffers may be nil without values
		}
		width := int64(a.DataType().(arrow.FixedWidthDataType).Bytes())
		return a.Data().Buffers()[1].Bytes()[from*width : to*width]
	}
	switch c := column.(type) {
	case *array.Binary:
		return c.Value(row)
	case *array.String:
		return []byte(c.Value(row))
	case *array.List:
		from, to := c.ValueOffsets(row)
		return whole(c.ListValues(), from, to)
	case *array.FixedSizeList:
		from, to := c.ValueOffsets(row)
		return whole(c.ListValues(), from, to)
	}
	if _, ok := column.DataType().(arrow.FixedWidthDataType); !ok {
		t.Fatalf("got a column of %v", column.DataType())
	}
	return whole(column, int64(row), int64(row)+1)
}

// TestExtensionTypes: bool with one byte per value, and arrays with a shape, have Arrow's names for
// these extension types.
func TestExtensionTypes(t *testing.T) {
	truth, _ := ours.ParseType("bool")
	numbers, _ := ours.ParseType("float")
	array, ok := numbers.Array([]uint64{3, 224, 2})
	if !ok {
		t.Fatal("got no type of an array")
	}
	w, err := ours.NewWriter(0, []*ours.Column{ours.NewColumn(ours.Field{Name: "a", Type: truth}), ours.NewColumn(ours.Field{Name: "b", Type: array})})
	if err != nil {
		t.Fatal(err)
	}
	stream := bytes.Clone(w.Head())
	for _, c := range w.Columns() {
		stream = append(append(stream, c.Before()...), c.After()...)
	}
	r, err := ipc.NewReader(bytes.NewReader(append(stream, ours.End()...)), ipc.WithAllocator(memory.NewGoAllocator()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for i, want := range []string{"arrow.bool8 ", `arrow.fixed_shape_tensor {"shape":[3,224,2]}`} {
		m := r.Schema().Field(i).Metadata
		name, _ := m.GetValue("ARROW:extension:name")
		parameters, _ := m.GetValue("ARROW:extension:metadata")
		if e, ok := r.Schema().Field(i).Type.(arrow.ExtensionType); ok {
			name, parameters = e.ExtensionName(), e.Serialize()
		}
		if got := fmt.Sprintf("%s %s", name, parameters); got != want {
			t.Errorf("column %d: got %q, want %q", i, got, want)
		}
	}
}

func TestTypesThatHaveNoColumn(t *testing.T) {
	for _, words := range []string{
		"", "string", "int7", "int128", "list<utf8>", "list<list<int8>>", "list<int8", "struct<a: int8>", "timestamp", "timestamp[]", "timestamp[m]", "timestamp[us",
		"timestamp[us, tz=]", "duration[s, tz=UTC]", "time32[us]", "time64[s]", "decimal128(39, 0)", "decimal32(10, 0)", "decimal128(0, 0)", "decimal128(5)", "decimal16(2, 0)",
		"fixed_size_binary[0]", "fixed_size_binary[-1]", "fixed_size_binary[4294967296]", "fixed_size_binary", "interval[s]",
	} {
		if kind, ok := ours.ParseType(words); ok {
			t.Errorf("%q: got %+v, want no type", words, kind)
		}
	}
	number, _ := ours.ParseType("int64")
	for _, shape := range [][]uint64{{}, {0}, {3, 0}, {1 << 28}, {1 << 31}, {1 << 63, 2}} {
		if kind, ok := number.Array(shape); ok {
			t.Errorf("%d: got %+v, want no type", shape, kind)
		}
	}
	if kind, ok := ours.Text().Array([]uint64{2}); ok {
		t.Errorf("an array of texts: got %+v, want no type", kind)
	}
}

func TestColumnOfTwoGibibytesIsRefused(t *testing.T) {
	column := &ours.Column{Field: ours.Field{Name: "jpg", Type: ours.Bytes()}, Lengths: []uint32{1 << 30, 1 << 30}, Rows: 2}
	if _, err := ours.NewWriter(2, []*ours.Column{column}); err == nil {
		t.Error("got no error, want that the column is too long")
	}
	column.Lengths[1]--
	if _, err := ours.NewWriter(2, []*ours.Column{column}); err != nil {
		t.Errorf("got %v for one byte less, want no error", err)
	}
}

// TestValueOfAnotherLengthIsRefused: a column refuses a length that does not fit the type, because
// an index may contain one.
func TestValueOfAnotherLengthIsRefused(t *testing.T) {
	for words, lengths := range map[string][2]uint32{"int64": {8, 7}, "list<int32>": {8, 6}, "fixed_size_binary[3]": {3, 4}} {
		kind, _ := ours.ParseType(words)
		for i, length := range lengths {
			column := ours.NewColumn(ours.Field{Name: "x", Type: kind})
			if err := column.SetLengths([]uint32{lengths[0], length, 0}, []bool{false, false, true}); errors.Is(err, ours.ErrUnfit) != (i == 1) {
				t.Errorf("%s of %d bytes: got %v", words, length, err)
			}
		}
	}
}
