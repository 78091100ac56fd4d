package arrow_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"pgregory.net/rapid"

	ours "github.com/millrace-data/millrace/gateway/body/arrow"
)

// TestArrowReadsTheStream writes streams of any columns around their values, and has Arrow's own reader read them back.
func TestArrowReadsTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 40).Draw(t, "rows")
		fields := make([]ours.Field, rapid.IntRange(1, 6).Draw(t, "columns"))
		values := make([][][]byte, len(fields)) // nil: none
		columns := make([]ours.Column, len(fields))
		for i := range fields {
			fields[i] = ours.Field{
				Name: rapid.StringN(0, 20, -1).Draw(t, "name"), Text: rapid.Bool().Draw(t, "text"), Nullable: rapid.Bool().Draw(t, "nullable"),
			}
			columns[i].Lengths = make([]uint32, rows)
			for row := range rows {
				v := []byte(rapid.StringN(0, 12, -1).Draw(t, "value"))
				if fields[i].Nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
					v = nil
					if columns[i].Null == nil {
						columns[i].Null = make([]bool, rows)
					}
					columns[i].Null[row] = true
				}
				values[i] = append(values[i], v)
				columns[i].Lengths[row] = uint32(len(v))
			}
		}
		w, err := ours.NewWriter(rows, fields, columns)
		if err != nil {
			t.Fatal(err)
		}
		stream := bytes.NewBuffer(bytes.Clone(w.Head()))
		around := stream.Len()
		for i := range fields {
			stream.Write(w.Before(i))
			around += len(w.Before(i)) + len(w.After(i))
			for _, v := range values[i] {
				stream.Write(v)
			}
			stream.Write(w.After(i))
		}
		stream.Write(ours.End())
		if most := ours.Most(fields, rows); int64(around) > most {
			t.Errorf("got %d bytes around the values, want at most %d", around, most)
		}
		compare(t, stream.Bytes(), fields, values, rows)
	})
}

func compare(t *rapid.T, stream []byte, fields []ours.Field, values [][][]byte, rows int) {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if got := r.Schema().NumFields(); got != len(fields) {
		t.Fatalf("got %d columns, want %d", got, len(fields))
	}
	if !r.Next() {
		t.Fatalf("got no record batch: %v", r.Err())
	}
	batch := r.RecordBatch()
	if got := batch.NumRows(); got != int64(rows) {
		t.Errorf("got %d rows, want %d", got, rows)
	}
	for i, f := range fields {
		want := arrow.Field{Name: f.Name, Type: arrow.BinaryTypes.Binary, Nullable: f.Nullable}
		if f.Text {
			want.Type = arrow.BinaryTypes.String
		}
		if got := r.Schema().Field(i); !got.Equal(want) {
			t.Errorf("column %d: got %v, want %v", i, got, want)
		}
		column := batch.Column(i)
		nulls := 0
		for row, v := range values[i] {
			if v == nil {
				nulls++
			}
			if got := column.IsNull(row); got != (v == nil) {
				t.Errorf("column %d, row %d: got null %v, want %v", i, row, got, v == nil)
			} else if got := valueOf(column, row); !bytes.Equal(got, v) {
				t.Errorf("column %d, row %d: got %q, want %q", i, row, got, v)
			}
		}
		if got := column.NullN(); got != nulls {
			t.Errorf("column %d: got %d nulls, want %d", i, got, nulls)
		}
	}
	if r.Next() || r.Err() != nil {
		t.Errorf("got %v after the record batch, want the end", r.Err())
	}
}

func valueOf(column arrow.Array, row int) []byte {
	switch c := column.(type) {
	case *array.Binary:
		return c.Value(row)
	case *array.String:
		return []byte(c.Value(row))
	}
	return nil
}

func TestColumnOfTwoGibibytesIsRefused(t *testing.T) {
	column := ours.Column{Lengths: []uint32{1 << 30, 1 << 30}}
	if _, err := ours.NewWriter(2, []ours.Field{{Name: "jpg"}}, []ours.Column{column}); err == nil {
		t.Error("got no error, want that the column is too long")
	}
	column.Lengths[1]--
	if _, err := ours.NewWriter(2, []ours.Field{{Name: "jpg"}}, []ours.Column{column}); err != nil {
		t.Errorf("got %v for one byte less, want no error", err)
	}
}
