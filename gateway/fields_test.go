package gateway_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
)

// serveGolden serves files written by another library.
func serveGolden(t *testing.T, dir string, edit func(*gateway.Config), names ...string) *rig {
	t.Helper()
	objects := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		objects[name] = b
	}
	return serveObjects(t, objects, edit)
}

// fieldsOf returns the fields in the description of a dataset.
func fieldsOf(r *rig, dataset string) []format.Field {
	r.t.Helper()
	var got struct {
		Fields []format.Field `json:"fields"`
	}
	if err := json.Unmarshal(r.do("GET", "/v1/datasets/"+dataset).body, &got); err != nil {
		r.t.Fatal(err)
	}
	return got.Fields
}

// TestDescriptionTellsFields serves a dataset written by MDSWriter. It compares the description of
// its columns with the written columns and with the specification.
func TestDescriptionTellsFields(t *testing.T) {
	r := serveGolden(t, "../chunkindex/format/mds/testdata", nil, "shard.00000.mds", "index.json")
	want := []format.Field{
		{Name: "id", Encoding: "raw", Type: "int64"},
		{Name: "q\"\\uote\n\x7fé😀</a>", Encoding: "json"},
		{Name: "raw", Encoding: "raw", Type: "binary"},
		{Name: "text", Encoding: "raw", Type: "utf8"},
		{Name: "v", Encoding: "raw", Type: "float", Shape: []uint64{2}},
		{Name: "w", Encoding: "mds:ndarray"},
		{Name: "x", Encoding: "raw", Type: "float"},
	}
	if d := cmp.Diff(want, fieldsOf(r, "photos")); d != "" {
		t.Error(d)
	}
	checkDescriptions(t, r)
}

// TestDescriptionTellsClasses serves a dataset written by the library datasets, with a column of
// class labels and a column of lists of structs.
func TestDescriptionTellsClasses(t *testing.T) {
	r := serveGolden(t, "../chunkindex/codec/rowgroup/testdata", nil, "by-datasets.parquet")
	text := format.Field{Encoding: "raw", Type: "utf8", Nullable: true}
	role, content := text, text
	role.Name, content.Name = "role", "content"
	message := format.Field{Encoding: "nested", Type: "struct", Nullable: true, Children: []format.Field{role, content}}
	want := []format.Field{
		{Name: "image.bytes", Encoding: "raw", Type: "binary", Nullable: true},
		{Name: "image.path", Encoding: "raw", Type: "utf8", Nullable: true},
		{Name: "label", Encoding: "raw", Type: "int64", Nullable: true, Classes: []string{"cat", "dog"}},
		{Name: "caption", Encoding: "raw", Type: "utf8", Nullable: true},
		{Name: "messages", Encoding: "nested", Type: "list<struct<role: utf8, content: utf8>>", Nullable: true, Children: []format.Field{message}},
		{Name: "embedding", Encoding: "raw", Type: "list<float>", Nullable: true},
	}
	if d := cmp.Diff(want, fieldsOf(r, "photos")); d != "" {
		t.Error(d)
	}
	checkDescriptions(t, r)
}

// checkDescriptions compares the descriptions of datasets with the specification.
func checkDescriptions(t *testing.T, r *rig) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(r.do("GET", "/openapi.json").body)
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	s := specification{t, r, router}
	s.check("GET", "/v1/datasets/photos", "", http.StatusOK, r.do("GET", "/v1/datasets/photos"))
	s.check("GET", "/v1/datasets", "", http.StatusOK, r.do("GET", "/v1/datasets"))
}

// TestDescriptionOfTarsHasNoFields: tars have no fields, because only the suffix indicates the
// content of a member.
func TestDescriptionOfTarsHasNoFields(t *testing.T) {
	r := serveObjects(t, writeTars(t).objects, nil)
	if a := r.do("GET", "/v1/datasets/photos"); bytes.Contains(a.body, []byte("fields\":[")) {
		t.Errorf("got %s, want no fields", a.body)
	}
}

// TestFieldsOfMixtures: a mixture has the fields common to all of its sources.
func TestFieldsOfMixtures(t *testing.T) {
	tars := serveObjects(t, writeTars(t).objects, nil)
	r := serveGolden(t, "../chunkindex/format/mds/testdata", func(cfg *gateway.Config) {
		same := cfg.Datasets[0]
		same.Name = "same"
		cfg.Datasets = append(cfg.Datasets, same, gateway.Dataset{Name: "tars", Index: tars.index, Source: same.Source})
		of := func(name, second string) gateway.Mixture {
			return gateway.Mixture{Name: name, Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}, {Dataset: second, Share: 1}}}}
		}
		cfg.Mixtures, cfg.Mix = []gateway.Mixture{of("alike", "same"), of("unlike", "tars")}, mix
	}, "shard.00000.mds", "index.json")
	if d := cmp.Diff(fieldsOf(r, "photos"), fieldsOf(r, "alike")); d != "" {
		t.Error(d)
	}
	if fields := fieldsOf(r, "unlike"); fields != nil {
		t.Errorf("got %v of sources that differ, want none", fields)
	}
}

// readColumns reads the columns of a response in the form arrow.
func readColumns(t *testing.T, a answer) arrow.RecordBatch {
	t.Helper()
	if a.StatusCode != http.StatusOK {
		t.Fatalf("got status %d: %s", a.StatusCode, a.body)
	}
	r, err := ipc.NewReader(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	if !r.Next() {
		t.Fatal(r.Err())
	}
	return r.RecordBatch()
}

// TestColumnsOfArrowHaveTheTypesOfTheFields checks the names, order and types of all columns, and
// of the columns in fields=.
func TestColumnsOfArrowHaveTheTypesOfTheFields(t *testing.T) {
	r := serveGolden(t, "../chunkindex/format/mds/testdata", nil, "shard.00000.mds", "index.json")
	text := func(batch arrow.RecordBatch) (all []string) {
		for _, f := range batch.Schema().Fields() {
			encoding, _ := f.Metadata.GetValue("millrace:encoding")
			all = append(all, fmt.Sprintf("%s %s %v %s", f.Name, f.Type.Name(), f.Nullable, encoding))
		}
		return all
	}
	want := []string{
		"__key__ utf8 false ", "id int64 false ", "q\"\\uote\n\x7fé😀</a> utf8 false json", "raw binary false ", "text utf8 false ", "v fixed_size_list false ",
		"w binary false mds:ndarray", "x float32 false ",
	}
	path := "/epoch/0/batch/0?batch_size=5&shuffle=none&format=arrow"
	all := readColumns(t, r.do("GET", path))
	if d := cmp.Diff(want, text(all)); d != "" {
		t.Error(d)
	}
	for row := range int(all.NumRows()) {
		if got := all.Column(1).(*array.Int64).Value(row); got != int64(row) {
			t.Errorf("row %d: got id %d", row, got)
		}
		if got := all.Column(7).(*array.Float32).Value(row); got != float32(row)/2 {
			t.Errorf("row %d: got x %g", row, got)
		}
	}
	if got, want := text(readColumns(t, r.do("GET", path+"&fields=x,id"))), []string{"__key__ utf8 false ", "x float32 false ", "id int64 false "}; !cmp.Equal(got, want) {
		t.Errorf("fields=x,id: got %q, want %q", got, want)
	}
}

// TestArrow_NamesEachColumnOnce serves samples with a column __key__: the column of keys gets
// another name.
func TestArrow_NamesEachColumnOnce(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "__key__", Type: arrow.BinaryTypes.String}, {Name: "txt", Type: arrow.BinaryTypes.String}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows.Field(0).(*array.StringBuilder).AppendValues([]string{"n01/1", "n01/2"}, nil)
	rows.Field(1).(*array.StringBuilder).AppendValues([]string{"one", "two"}, nil)
	var table bytes.Buffer
	w := ipc.NewWriter(&table, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rows.NewRecordBatch()), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := serveObjects(t, map[string][]byte{"a.arrow": table.Bytes()}, nil)
	for query, want := range map[string]string{
		"":                "millrace:__key__=[\"a/000000000\" \"a/000000001\"] __key__=[\"n01/1\" \"n01/2\"] txt=[\"one\" \"two\"]",
		"&fields=txt":     "__key__=[\"a/000000000\" \"a/000000001\"] txt=[\"one\" \"two\"]",
		"&fields=__key__": "millrace:__key__=[\"a/000000000\" \"a/000000001\"] __key__=[\"n01/1\" \"n01/2\"]",
	} {
		batch := readColumns(t, r.do("GET", "/epoch/0/batch/0?shuffle=none&format=arrow"+query))
		var got []string
		for i, f := range batch.Schema().Fields() {
			got = append(got, fmt.Sprintf("%s=%v", f.Name, batch.Column(i)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

// TestLengthThatATypeDoesNotHaveIsRefused: LitData's shards do not declare fixed lengths, so a leaf
// may have another length than its type. The refusal contains the column's name.
func TestLengthThatATypeDoesNotHaveIsRefused(t *testing.T) {
	shard := make([]byte, 12, 32)
	binary.LittleEndian.PutUint32(shard, 1)      // samples
	binary.LittleEndian.PutUint32(shard[4:], 12) // start of the first sample
	binary.LittleEndian.PutUint32(shard[8:], 23) // end of the first sample
	shard = append(shard, "\x07\x00\x00\x00"...) // length of its leaf
	shard = append(shard, "1234567"...)
	index := fmt.Sprintf(`{"chunks":[{"chunk_bytes":%d,"chunk_size":1,"dim":null,"filename":"chunk-0-0.bin"}],
		"config":{"data_format":["int"],"data_spec":"[1, null]","item_loader":"PyTreeLoader"}}`, len(shard))
	r := serveObjects(t, map[string][]byte{"chunk-0-0.bin": shard, "index.json": []byte(index)}, nil)
	a := r.do("GET", "/epoch/0/batch/0?format=arrow")
	if a.StatusCode != http.StatusBadRequest || !bytes.Contains(a.body, []byte("column \\\"0\\\": value does not match its type: 7 bytes")) {
		t.Errorf("got status %d: %s, want a refusal by name", a.StatusCode, a.body)
	}
	if a := r.do("GET", "/epoch/0/batch/0?format=tar"); a.StatusCode != http.StatusOK {
		t.Errorf("as a tar: got status %d: %s", a.StatusCode, a.body)
	}
}
