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

// arrowStream returns a table of one column, as written by datasets.
func arrowStream(t *testing.T, column string, texts ...string) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows.Field(0).(*array.StringBuilder).AppendValues(texts, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rows.NewRecordBatch()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRun_DerivedTables checks which tables of datasets' cache are read, and that each command in a
// refusal selects a consistent set.
func TestRun_DerivedTables(t *testing.T) {
	const a, b, indices = "cache-3b2fd0e35a1c4d7f", "cache-00ff12ab34cd56ef", "cache-1d1ce500aa00aa00"
	for _, c := range []struct {
		keys string
		read string   // the shards that are read; empty: the tables are refused
		ways []uint64 // number of samples that each suggestion selects
	}{
		{keys: "json-train.arrow " + a + ".arrow dataset_info.json", read: a + ".arrow"},
		{keys: "json-train-00000-of-00002.arrow json-train-00001-of-00002.arrow " + a + ".arrow", read: a + ".arrow"},
		{keys: "json-train.arrow " + a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow", read: a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow"},
		{keys: a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow", read: a + "_00000_of_00002.arrow " + a + "_00001_of_00002.arrow"},
		{keys: "data-00000-of-00001.arrow state.json " + a + ".arrow " + indices + ".arrow", read: "data-00000-of-00001.arrow"},
		{keys: "cache-of-mine.arrow json-train.arrow", read: "cache-of-mine.arrow json-train.arrow"},
		{keys: "json-train.arrow " + a + "_00001_of_00002.arrow", ways: []uint64{2, 3}},
		{keys: "json-train.arrow json-test.arrow " + a + ".arrow", ways: []uint64{0, 3}},
		{keys: "a/json-train.arrow b/" + a + ".arrow", ways: []uint64{2, 3}},
		{keys: "json-train.arrow " + a + ".arrow " + a + "_00000_of_00001.arrow", ways: []uint64{2, 3, 3}},
		{keys: "json-train.arrow " + a + ".arrow " + b + ".arrow", ways: []uint64{2, 3, 3}},
		{keys: "json-train.arrow " + a + ".arrow " + indices + ".arrow", ways: []uint64{2, 3}},
		{keys: "json-train.arrow " + indices + ".arrow", ways: []uint64{2}},
		{keys: a + ".arrow " + b + ".arrow", ways: []uint64{3, 3}},
		{keys: "data-00000-of-00001.arrow state.json x/" + a + ".arrow x/" + b + ".arrow", ways: []uint64{2, 3, 3}},
	} {
		store, samples := memstore.New(), map[string]uint64{}
		for key := range strings.FieldsSeq(c.keys) {
			store.Set(key, arrowStream(t, "text", "a", "b"))
			samples[key] = 2
			switch {
			case strings.Contains(key, indices):
				store.Set(key, arrowStream(t, "indices", "a"))
			case strings.Contains(key, "cache-"):
				store.Set(key, arrowStream(t, "text", "a", "b", "c"))
				samples[key] = 3
			}
		}
		rep, err := Run(t.Context(), store, "", Options{})
		if err == nil {
			want := uint64(0)
			for key := range strings.FieldsSeq(c.read) {
				want += samples[key]
			}
			if rep.Samples != want || c.ways != nil {
				t.Errorf("%s: got %d samples, want those of %s", c.keys, rep.Samples, c.read)
			}
			continue
		}
		choice, _ := errors.AsType[*format.ChoiceError](err)
		if choice == nil || c.read != "" {
			t.Errorf("%s: got %v, want %s, or ways to %v samples", c.keys, err, c.read, c.ways)
			continue
		}
		var got []uint64
		for _, w := range choice.Ways {
			if w.Command != "" {
				continue
			}
			rep, err := Run(t.Context(), store, "", Options{Match: w.Value.(string)})
			if _, splits := errors.AsType[*SplitsError](err); err != nil && !splits {
				t.Errorf("%s: %s: %v", c.keys, w.Value, err)
			}
			got = append(got, rep.Samples)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.ways) {
			t.Errorf("%s: got ways to %v samples, want %v", c.keys, got, c.ways)
		}
	}
}
