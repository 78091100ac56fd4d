package arrowbatch_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestParseMessage_Arrow017Compression checks that the compression declared in a message's own
// metadata is applied. integration/foreign_files_test.go reads a file of that release.
func TestParseMessage_Arrow017Compression(t *testing.T) {
	a, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64, strings.NewReader(`[4, 5, 6]`))
	if err != nil {
		t.Fatal(err)
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType()}}, nil)
	for codec, want := range map[string]string{"LZ4": "lz4: bad magic number", "zstd": "magic number mismatch"} {
		about := arrow.NewMetadata([]string{"ARROW:experimental_compression"}, []string{codec})
		schema, batches := messages(t, stream(t, nil, array.NewRecordBatchWithMetadata(s, []arrow.Array{a}, 3, about)))
		if got, err := rowsOf(schema, batches); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %x and %v, want %q", codec, got, err, want)
		}
	}
}
