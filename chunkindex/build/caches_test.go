package build

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// arrowStream returns a table of one column and two rows, as written by datasets.
func arrowStream(t *testing.T) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows.Field(0).(*array.StringBuilder).AppendValues([]string{"a", "b"}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rows.NewRecordBatch()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRun_RejectsDerivedTables checks that derived tables are rejected if they are mixed with their
// input, and that each suggested command selects a consistent set.
func TestRun_RejectsDerivedTables(t *testing.T) {
	const a, b = "cache-3b2fd0e35a1c4d7f", "cache-00ff12ab34cd56ef"
	for _, c := range []struct {
		keys    string
		samples []uint64 // number of samples that each suggestion selects; nil: the tables are accepted
	}{
		{"json-train.arrow " + a + ".arrow dataset_info.json", []uint64{2, 2}},
		{"data-00000-of-00002.arrow data-00001-of-00002.arrow " + a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow", []uint64{4, 4}},
		{a + ".arrow " + b + ".arrow", []uint64{2}},
		{a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow", nil},
		{"cache-of-mine.arrow json-train.arrow", nil},
		{"json-train-00000-of-00002.arrow json-train-00001-of-00002.arrow", nil},
	} {
		store := memstore.New()
		for key := range strings.FieldsSeq(c.keys) {
			store.Set(key, arrowStream(t))
		}
		_, err := Run(t.Context(), store, "", Options{})
		choice, _ := errors.AsType[*format.ChoiceError](err)
		if choice == nil {
			if err != nil || c.samples != nil {
				t.Errorf("%s: got %v, want ways to %v samples", c.keys, err, c.samples)
			}
			continue
		}
		var got []uint64
		for _, w := range choice.Ways {
			rep, err := Run(t.Context(), store, "", Options{Match: w.Value.(string)})
			if err != nil {
				t.Errorf("%s: %s: %v", c.keys, w.Value, err)
			}
			got = append(got, rep.Samples)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.samples) {
			t.Errorf("%s: got ways to %v samples, want %v", c.keys, got, c.samples)
		}
	}
}
