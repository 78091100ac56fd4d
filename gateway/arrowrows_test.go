package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// TestRowsOfArrowFilesComeBack indexes a stream of small, compressed record batches, several of
// which make up a chunk. It reads an epoch as Arrow: every row is delivered once, with its values,
// nulls and types.
func TestRowsOfArrowFilesComeBack(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "score", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "tokens", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint16), Nullable: true},
		{Name: "captions", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithZstd())
	const rows, each = 400, 20
	for from := 0; from < rows; from += each {
		var lines []string
		for i := from; i < from+each; i++ {
			score, tokens := fmt.Sprint(i), strings.TrimSuffix(strings.Repeat(fmt.Sprint(i, ","), i%5), ",")
			if i%3 == 0 {
				score = "null"
			}
			lines = append(lines, fmt.Sprintf(`{"id":%d,"score":%s,"tokens":[%s],"captions":["%d"]}`, i, score, tokens, i))
		}
		b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(lines, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := serveObjects(t, map[string][]byte{"data-00000-of-00001.arrow": out.Bytes(), "state.json": []byte("{}")}, nil)
	if chunks := r.index.Chunks(); chunks < 2 || chunks >= rows/each {
		t.Errorf("got %d chunks, want several of several record batches each", chunks)
	}
	seen := map[int64]bool{}
	for m := range rows / 50 {
		all := readColumns(t, r.do("GET", fmt.Sprintf("/epoch/2/batch/%d?batch_size=50&format=arrow", m)))
		for row := range int(all.NumRows()) {
			id := all.Column(1).(*array.Int64).Value(row)
			score, tokens := all.Column(2).(*array.Float32), all.Column(3).(*array.List)
			from, to := tokens.ValueOffsets(row)
			if seen[id] || score.IsNull(row) != (id%3 == 0) || !score.IsNull(row) && score.Value(row) != float32(id) || to-from != id%5 {
				t.Fatalf("row %d: got %v, %v, %d tokens", id, score, seen[id], to-from)
			}
			for k := from; k < to; k++ {
				if v := tokens.ListValues().(*array.Uint16).Value(int(k)); int64(v) != id {
					t.Errorf("row %d: got token %d", id, v)
				}
			}
			seen[id] = true
		}
		encoding, _ := all.Schema().Field(4).Metadata.GetValue("millrace:encoding")
		if kind, _ := all.Schema().Field(4).Metadata.GetValue("millrace:type"); encoding != "nested" || kind != "list<utf8>" {
			t.Errorf("got captions as %s of %s, want nested", encoding, kind)
		}
	}
	if len(seen) != rows {
		t.Errorf("got %d rows, want %d", len(seen), rows)
	}
}

// TestColumnsHaveTheirLogicalTypes serves a Parquet file with every type. Integers of one and two
// bytes, which the file stores in four bytes, are sent in one and two, with the correct checksum.
// Metadata describes values whose Arrow layout differs from the stored bytes.
func TestColumnsHaveTheirLogicalTypes(t *testing.T) {
	r := serveGolden(t, "../chunkindex/codec/rowgroup/testdata", nil, "types.parquet")
	a := r.do("GET", "/epoch/0/batch/0?batch_size=9&shuffle=none&format=arrow")
	if got, want := a.Header.Get("Millrace-Crc32c"), fmt.Sprintf("%08x", crcOf(a.body)); got != want {
		t.Errorf("got checksum %s, want %s", got, want)
	}
	all := readColumns(t, a)
	got := map[string]string{}
	for i, f := range all.Schema().Fields() {
		logical, _ := f.Metadata.GetValue("millrace:logical")
		if logical != "" || strings.Contains(f.Name, "int") {
			got[f.Name] = strings.TrimSpace(fmt.Sprint(f.Type, " ", logical))
		}
		if b, err := all.Column(i).MarshalJSON(); f.Name == "int8" && (err != nil || string(b) != "[-128,null,127]") {
			t.Errorf("int8: got %s, %v", b, err)
		}
	}
	want := map[string]string{
		"int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64",
		"decimal128": "fixed_size_binary[13] decimal128(30, 2)", "decimal256": "fixed_size_binary[26] decimal256(60, 2)", "nothing": "int32 null",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
