package arrowbatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
)

// BenchmarkDecode decodes record batches of numbers, of texts and of chats.
func BenchmarkDecode(b *testing.B) {
	turn := arrow.StructOf(arrow.Field{Name: "role", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "tokens", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)})
	for _, c := range []struct {
		name, row string
		kinds     []arrow.DataType
	}{
		{"numbers", `{"0": 1, "1": 2.5, "2": null}`, []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int32}},
		{"texts", `{"0": "a caption of a few words", "1": null}`, []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}},
		{"chats", `{"0": [{"role": "user", "tokens": [1, 2, 3]}, {"role": "assistant", "tokens": [4]}]}`, []arrow.DataType{arrow.ListOf(turn)}},
	} {
		var fields []arrow.Field
		for i, kind := range c.kinds {
			fields = append(fields, arrow.Field{Name: fmt.Sprint(i), Type: kind, Nullable: true})
		}
		const n = 10_000
		batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader("["+strings.Repeat(c.row+",", n-1)+c.row+"]"))
		if err != nil {
			b.Fatal(err)
		}
		schema, batches := messages(b, stream(b, nil, batch))
		rows, err := rowsOf(schema, batches)
		if err != nil {
			b.Fatal(err)
		}
		params, stored := chunk(b, schema, batches)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(rows)))
			for b.Loop() {
				if err := arrowbatch.Decode(params, stored, rows, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
