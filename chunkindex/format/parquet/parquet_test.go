package parquet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/parquet"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// file returns a file written by pyarrow.
func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../codec/rowgroup/testdata/" + name + ".parquet")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSamples checks that rows become samples with a part for each non-null value, and that all
// files must have the same schema.
func TestSamples(t *testing.T) {
	o := scantest.Objects{"d/train-0.parquet": file(t, "checksums"), "d/train-1.PARQ": file(t, "compressed-zstd-v2"), "empty.parquet": nil, "README.md": []byte("about")}
	got, err := scantest.Scan(t.Context(), parquet.Format(), format.Options{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(got["d/train-0.parquet"]) != 50 || len(got["d/train-1.PARQ"]) != 40 || len(got["empty.parquet"]) != 0 || len(got) != 3 {
		t.Fatalf("got %d shards", len(got))
	}
	first, second := got["d/train-0.parquet"][0], got["d/train-1.PARQ"][1]
	if first.Key != "d/train-0/000000000" || second.Key != "d/train-1/000000001" {
		t.Errorf("got keys %s, %s", first.Key, second.Key)
	}
	// Row 0 has a null "fixed" and an empty "text".
	want := []scantest.Part{{Ext: "int32", Offset: 9, Length: 4}, {Ext: "int64", Offset: 13, Length: 8}, {Ext: "float", Offset: 21, Length: 4}, {Ext: "double", Offset: 25, Length: 8}, {Ext: "text", Offset: 33}, {Ext: "sorted", Offset: 33, Length: 10}, {Ext: "ok", Offset: 43, Length: 1}}
	if d := cmp.Diff(want, first.Parts); d != "" || first.Length != 44 {
		t.Errorf("%d bytes (-want +got):\n%s", first.Length, d)
	}
	scantest.Parts(t, scantest.Dataset{Format: parquet.Format(), Objects: o})
}

// TestFields checks that the constants are the schema, and that the framing returns the types of
// the parts.
func TestFields(t *testing.T) {
	d, err := parquet.Format().Survey(t.Context(), scantest.Objects{"a.parquet": file(t, "nested")}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := framing.Read("parquet", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	utf8 := format.Field{Encoding: "raw", Type: "utf8", Nullable: true}
	named := func(name string, f format.Field) format.Field {
		f.Name = name
		return f
	}
	nested := func(kind string, children ...format.Field) []format.Field {
		return []format.Field{{Encoding: "nested", Type: kind, Nullable: true, Children: children}}
	}
	integers := format.Field{Encoding: "raw", Type: "list<int32>", Nullable: true}
	small := integers
	small.Logical = "list<int16>"
	message := nested("struct", named("role", utf8), named("content", utf8), named("tokens", integers))
	count := nested("struct", format.Field{Name: "key", Encoding: "raw", Type: "utf8"}, format.Field{Name: "value", Encoding: "raw", Type: "int32", Nullable: true})
	count[0].Nullable = false
	want := []format.Field{
		{Name: "image.bytes", Encoding: "raw", Type: "binary", Nullable: true},
		{Name: "image.path", Encoding: "raw", Type: "utf8", Nullable: true},
		{Name: "embedding", Encoding: "raw", Type: "list<float>", Nullable: true},
		{Name: "vector", Encoding: "raw", Type: "list<int64>", Nullable: true},
		{Name: "captions", Encoding: "nested", Type: "list<utf8>", Nullable: true, Children: []format.Field{utf8}},
		{Name: "messages", Encoding: "nested", Type: "list<struct<role: utf8, content: utf8, tokens: list<int32>>>", Nullable: true, Children: message},
		{Name: "counts", Encoding: "nested", Type: "map<utf8, int32>", Nullable: true, Children: count},
		{Name: "deep", Encoding: "nested", Type: "list<list<list<utf8>>>", Nullable: true, Children: nested("list", nested("list", utf8)...)},
		{Name: "outer.inner.leaf", Encoding: "raw", Type: "int32", Nullable: true},
		{Name: "matrix", Encoding: "nested", Type: "list<list<int32>>", Nullable: true, Children: []format.Field{small}},
	}
	if d := cmp.Diff(want, format.FieldsOf(f)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if before, after, err := f.Frame([]uint32{1}); len(before)+len(after) > 0 || err != nil {
		t.Errorf("got %x, %x, %v around rows, want nothing", before, after, err)
	}
	for _, constants := range []string{"", "{}", `{"fields":[{"name":"a","type":"struct"}]}`} {
		if _, err := framing.Read("parquet", []byte(constants)); err == nil {
			t.Errorf("constants %q: got no error", constants)
		}
	}
}

// TestLogicalTypes checks that a field has a logical type only if Arrow's layout of that type
// differs from the stored bytes.
func TestLogicalTypes(t *testing.T) {
	want := map[string]string{
		"decimal128": "decimal128(30, 2) as fixed_size_binary[13]", "decimal256": "decimal256(60, 2) as fixed_size_binary[26]", "nothing": "null as int32",
		"int8": "int8 as int32", "uint8": "uint8 as uint32", "int16": "int16 as int32", "uint16": "uint16 as uint32",
		"timestamp_us": "timestamp[ns] as fixed_size_binary[12]", "uuid": "uuid as fixed_size_binary[16]", "tiny": "uint8 as uint32", "small": "int8 as int32",
	}
	got := map[string]string{}
	for _, name := range []string{"types", "types-int96", "by-duckdb", "by-polars", "types-decimal32"} {
		d, err := parquet.Format().Survey(t.Context(), scantest.Objects{"a.parquet": file(t, name)}, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := framing.Read("parquet", d.Framing)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range format.FieldsOf(f) {
			if field.Logical != "" {
				got[field.Name] = field.Logical + " as " + field.Type
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestClasses checks that class names come from a README, or otherwise from the first file with
// rows.
func TestClasses(t *testing.T) {
	own := file(t, "by-datasets") // the label is 0 for a cat and 1 for a dog
	unsaid := bytes.Replace(own, []byte("huggingface"), []byte("another key"), 1)
	swapped := bytes.Replace(own, []byte(`["cat", "dog"]`), []byte(`["dog", "cat"]`), 1)
	garbled := bytes.Replace(own, []byte(`{"info": `), []byte(`{"info"; `), 1)
	for name, c := range map[string]struct {
		first, second []byte
		card          map[string][]string
		want          []string
		err           string
	}{
		"of both":          {first: own, second: own, want: []string{"cat", "dog"}},
		"of the first":     {first: own, second: unsaid, want: []string{"cat", "dog"}},
		"of the second":    {first: unsaid, second: own},
		"of none":          {first: unsaid, second: unsaid},
		"that differ":      {first: own, second: swapped, err: `shard b.parquet: the classes of its column "label" differ from those of a.parquet`},
		"garbled":          {first: garbled, second: own},
		"of a README":      {first: unsaid, second: unsaid, card: map[string][]string{"label": {"Katze"}}, want: []string{"Katze"}},
		"a README rules":   {first: own, second: swapped, card: map[string][]string{"label": {"Katze"}}, want: []string{"Katze"}},
		"of other columns": {first: own, second: own, card: map[string][]string{"caption": {"x"}, "nothing": {"y"}}, want: []string{"cat", "dog"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := scantest.Objects{"a.parquet": c.first, "b.parquet": c.second}
			options := format.Options{Classes: func(context.Context) (map[string][]string, error) { return c.card, nil }}
			d, err := parquet.Format().Survey(t.Context(), o, options)
			if err != nil {
				t.Fatal(err)
			}
			f, err := framing.Read("parquet", d.Framing)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range format.FieldsOf(f) {
				want := c.want
				if c.err != "" {
					want = []string{"cat", "dog"}
				}
				if field.Name != "label" {
					want = nil
				}
				if d := cmp.Diff(want, field.Classes); d != "" {
					t.Errorf("%s (-want +got):\n%s", field.Name, d)
				}
			}
			if _, err = scantest.Scan(t.Context(), parquet.Format(), options, o); c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
		})
	}
}

// TestRefused checks that unsupported files are rejected by name, with advice.
func TestRefused(t *testing.T) {
	whole := file(t, "checksums")
	for name, c := range map[string]struct {
		objects scantest.Objects
		want    string
	}{
		"another kind of file":    {scantest.Objects{"a.parquet": bytes.Repeat([]byte("x"), 100)}, "object a.parquet: it does not end with PAR1"},
		"a few bytes":             {scantest.Objects{"a.parquet": []byte("PAR1")}, "object a.parquet: it has 4 bytes"},
		"a file that was cut":     {scantest.Objects{"a.parquet": whole[:len(whole)-100]}, "truncated"},
		"an encrypted footer":     {scantest.Objects{"a.parquet": append(bytes.Clone(whole[:len(whole)-4]), "PARE"...)}, "encrypted"},
		"a footer that is long":   {scantest.Objects{"a.parquet": append(binary.LittleEndian.AppendUint32(bytes.Clone(whole), 1<<31), "PAR1"...)}, "exceeds the file"},
		"compressed as a whole":   {scantest.Objects{"a.parquet.gz": whole}, "object a.parquet.gz: a Parquet file that is compressed as a whole"},
		"two types of one column": {scantest.Objects{"a.parquet": whole, "b.parquet": nil, "c.parquet": file(t, "nested"), "d.parquet": file(t, "types")}, `object d.parquet: column "fixed" is of type fixed_size_binary[3] here, and of type fixed_size_binary[4] in a.parquet: index the files of each type separately (--match), or omit the column (--fields)`},
		"a later footer":          {scantest.Objects{"a.parquet": whole, "b.parquet": whole[:len(whole)-5]}, "object b.parquet: it does not end with PAR1"},
		"damaged pages":           {scantest.Objects{"a.parquet": append(append(bytes.Clone(whole[:100]), whole[100]^1), whole[101:]...)}, "row group at offset 4"},
	} {
		t.Run(name, func(t *testing.T) { scantest.Refuses(t, parquet.Format(), format.Options{}, c.objects, c.want) })
	}
}

// TestChosenFields checks that, with selected columns, the schema contains only these columns, and
// files may differ in all others.
func TestChosenFields(t *testing.T) {
	o := scantest.Objects{"a.parquet": file(t, "nested"), "b.parquet": file(t, "nested-pages-v1"), "c.parquet": nil}
	choose := func(names ...string) format.Options { return format.Options{Fields: names} }
	got, err := scantest.Scan(t.Context(), parquet.Format(), choose("captions", "image.path"), o)
	if err != nil {
		t.Fatal(err)
	}
	for key, samples := range got {
		for _, s := range samples {
			for _, p := range s.Parts {
				if p.Ext != "captions" && p.Ext != "image.path" && p.Ext != "image" && p.Ext != "__null__" {
					t.Fatalf("%s, sample %s: got part %s", key, s.Key, p.Ext)
				}
			}
		}
	}
	d, err := parquet.Format().Survey(t.Context(), o, choose("captions", "image.path"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := framing.Read("parquet", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	want := []format.Field{{Name: "image.path", Encoding: "raw", Type: "utf8", Nullable: true}, {
		Name: "captions", Encoding: "nested", Type: "list<utf8>", Nullable: true, Children: []format.Field{{Encoding: "raw", Type: "utf8", Nullable: true}},
	}}
	if d := cmp.Diff(want, format.FieldsOf(f)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	scantest.Refuses(t, parquet.Format(), choose("caption"), o, `no column has the name "caption": the columns are image.bytes, image.path, embedding`)
	scantest.Refuses(t, parquet.Format(), choose("messages.content"), o, `"messages.content"`)
	o["b.parquet"] = file(t, "types")
	scantest.Refuses(t, parquet.Format(), choose("captions"), o, `object b.parquet: no column has the name "captions"`)
	o["b.parquet"] = file(t, "checksums")
	o["a.parquet"] = file(t, "types")
	if _, err := scantest.Scan(t.Context(), parquet.Format(), choose("int32"), o); err != nil {
		t.Errorf("files that differ in other columns: %v", err)
	}
}

// TestNames checks that objects without a Parquet name are claimed only if the user names the
// format.
func TestNames(t *testing.T) {
	o := scantest.Objects{"train": file(t, "checksums")}
	d, err := parquet.Format().Survey(t.Context(), o, format.Options{})
	if d != nil || err != nil {
		t.Errorf("got %v, %v, want nothing", d, err)
	}
	got, err := scantest.Scan(t.Context(), parquet.Format(), format.Options{Named: true}, o)
	if err != nil || len(got["train"]) != 50 || !strings.HasPrefix(got["train"][0].Key, "train/") {
		t.Errorf("got %d samples, %v", len(got["train"]), err)
	}
}
