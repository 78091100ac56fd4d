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

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
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
		if got := all.Schema().Field(4); !got.Equal(schema.Field(3)) {
			t.Errorf("got captions as %v, want %v", got, schema.Field(3))
		}
		if got, want := fmt.Sprint(all.Column(4).(*array.List).ListValues()), fmt.Sprintf("%q", strings.Fields(strings.Trim(fmt.Sprint(all.Column(1)), "[]"))); got != want {
			t.Errorf("captions: got %s, want %s", got, want)
		}
	}
	if len(seen) != rows {
		t.Errorf("got %d rows, want %d", len(seen), rows)
	}
}

// TestColumnsHaveTheirLogicalTypes serves a Parquet file with every type. Values have Arrow's layout
// even if the file has another one, with the correct checksum, in one batch, in several batches in
// one answer, and in a part of an answer.
func TestColumnsHaveTheirLogicalTypes(t *testing.T) {
	var memory *budget.Budget
	r := serveGolden(t, "../chunkindex/codec/rowgroup/testdata", func(c *gateway.Config) { memory = c.Budget }, "types.parquet")
	const query = "batch_size=2&shuffle=none&format=arrow"
	a := r.do("GET", "/epoch/0/batch/0?"+query)
	if got, want := a.Header.Get("Millrace-Crc32c"), fmt.Sprintf("%08x", crcOf(a.body)); got != want {
		t.Errorf("got checksum %s, want %s", got, want)
	}
	used := memory.InUse()
	if some := r.do("GET", "/epoch/0/batch/0?"+query, "Range: bytes=100-4000"); some.StatusCode != 206 || !bytes.Equal(some.body, a.body[100:4001]) {
		t.Errorf("got %d and other bytes for a part", some.StatusCode)
	}
	if head := r.do("HEAD", "/epoch/0/batch/0?"+query); head.Header.Get("Content-Length") != fmt.Sprint(len(a.body)) {
		t.Errorf("got length %s, want %d", head.Header.Get("Content-Length"), len(a.body))
	}
	if both := r.do("GET", "/epoch/0/batches?"+query); !bytes.Equal(both.body[80:][:len(a.body)], a.body) {
		t.Error("the first of several batches differs from the batch")
	}
	if got := memory.InUse(); got != used {
		t.Errorf("got %d bytes in use after the last response, want %d as before", got, used)
	}
	all := readColumns(t, a)
	got := map[string]string{}
	for i, f := range all.Schema().Fields() {
		if b, err := all.Column(i).MarshalJSON(); err == nil && strings.Contains(" bool int8 decimal128 decimal256 nothing ", " "+f.Name+" ") {
			got[f.Name] = fmt.Sprint(f.Type, " ", string(b), " ", f.Metadata.Len())
		}
	}
	want := map[string]string{
		"bool": "bool [true,null] 0", "int8": "int8 [-128,null] 0", "nothing": "null [null,null] 0",
		"decimal128": `decimal(30, 2) ["-12.34",null] 0`, "decimal256": `decimal256(60, 2) ["-12.34",null] 0`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
