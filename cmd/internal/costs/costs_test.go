package costs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// indexed writes objects to a store and indexes them.
func indexed(t *testing.T, objects map[string][]byte, opt build.Options) (location.Dataset, *memstore.Store) {
	t.Helper()
	st := memstore.New()
	for key, b := range objects {
		st.Set(key, b)
	}
	if _, err := build.Run(t.Context(), st, "", opt); err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.Open(t.Context(), st, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return location.Dataset{Store: st, Home: st, Index: x}, st
}

// from computes the costs by a spec.
func from(t *testing.T, d location.Dataset, spec string, missing *uint64) ([]uint32, error) {
	t.Helper()
	s, err := ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compute(t.Context(), d, s, missing, nil)
	return c.All, err
}

// files reads test data of other packages.
func files(t *testing.T, dir string, names ...string) map[string][]byte {
	t.Helper()
	objects := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join("../../../chunkindex", dir, name))
		if err != nil {
			t.Fatal(err)
		}
		objects[name] = b
	}
	return objects
}

// tarOf returns a tar whose members are given as name and content.
func tarOf(t *testing.T, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(members[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// arrowFile returns an Arrow file of four rows in two record batches. One row has nulls.
func arrowFile(t *testing.T) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		{Name: "words", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "ratio", Type: arrow.PrimitiveTypes.Float64},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{Name: "signed", Type: arrow.PrimitiveTypes.Int8},
		{Name: "large", Type: arrow.PrimitiveTypes.Uint64},
	}, nil)
	const rows = `[{"n": 1, "ids": [1, 2, 3], "words": ["a", "b"], "text": "é", "ratio": 1, "day": 1, "signed": 1, "large": 1},
		{"n": 65535, "ids": [], "words": [], "text": "", "ratio": 2, "day": 2, "signed": 127, "large": 4294967295},
		{"n": 300, "ids": [7], "words": ["", "", "c"], "text": "abc", "ratio": 3, "day": 3, "signed": -1, "large": 4294967296},
		{"n": null, "ids": null, "words": null, "text": null, "ratio": 4, "day": 4, "signed": 3, "large": 2}]`
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	var b bytes.Buffer
	w, err := ipc.NewFileWriter(&b, ipc.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	for i := int64(0); i < 4; i += 2 {
		if err := w.Write(record.NewSlice(i, i+2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// every returns n costs that repeat some.
func every(n int, costs ...uint32) []uint32 { return slices.Repeat(costs, n/len(costs)) }

// npy returns an .npy file of n zero bytes.
func npy(n int) string {
	return string(framing.NPYHeader("|u1", uint64(n), nil)) + strings.Repeat("\x00", n)
}

const lines = `{"id": 3, "ids": [1, [2, 3]], "text": "\u00e9", "meta": {"w": 4, "h": 5}, "meta.w": 9, "half": 0.5, "minus": -1, "large": 4294967296, "none": null}
{"id": 0, "ids": [], "text": "", "meta": {"w": 65536, "h": 65536}, "half": 1e3, "minus": -2, "large": 99999999999999999999, "none": null}
`

// TestCompute computes costs of every kind of field in every format that has fields. Values are those
// that other programs or this test have written.
func TestCompute(t *testing.T) {
	seven := uint64(7)
	datasets := map[string]struct {
		objects map[string][]byte
		opt     build.Options
	}{
		"mds":     {files(t, "format/mds/testdata", "index.json", "shard.00000.mds"), build.Options{}},
		"parquet": {files(t, "codec/rowgroup/testdata", "by-datasets.parquet"), build.Options{}},
		"arrow":   {map[string][]byte{"a.arrow": arrowFile(t)}, build.Options{ChunkSize: 1}},
		"jsonl":   {map[string][]byte{"a.jsonl": []byte(lines)}, build.Options{}},
		"csv":     {map[string][]byte{"a.csv": []byte("name,n,text\na,1,\"x, \"\"y\"\"\"\nb,,\nc,1.5,z\n")}, build.Options{}},
		"tsv":     {map[string][]byte{"a.tsv": []byte("a\t1\nb\t22\n")}, build.Options{Hints: format.Options{Header: "absent"}}},
		"tar": {map[string][]byte{"a.tar": tarOf(t,
			"a.cls", "12\n", "a.json", `{"ids": [1, 2], "npy": 1}`, "a.meta.json", `{"w": 3}`, "a.npy", npy(5), "a.txt", "caption",
			"b.cls", "9", "b.json", `[1, 2, 3]`, "b.meta.json", `{"w": 4, "ids": [1]}`, "b.npy", npy(0), "b.txt", "")}, build.Options{}},
		"records": {map[string][]byte{"a.bin": make([]byte, 24)}, build.Options{Hints: format.Options{RecordSize: 8, DType: "<f4"}}},
	}
	for _, c := range []struct {
		dataset, spec string
		missing       *uint64
		want          []uint32
		err           string
	}{
		{"mds", "id", nil, []uint32{0, 1, 2, 3, 4}, ""},
		{"mds", "len(text)", nil, []uint32{0, 1, 2, 3, 4}, ""},
		{"mds", "bytes(text)", nil, []uint32{0, 1, 2, 3, 4}, ""},
		{"mds", "len(v)", nil, []uint32{2, 2, 2, 2, 2}, ""},
		{"mds", "len(w)", nil, []uint32{1, 2, 3, 4, 5}, ""},
		{"mds", "x", nil, nil, "sample shard.00000/000000000: x is a float (float): a cost is a whole number"},
		{"mds", "v", nil, nil, "sample shard.00000/000000000: v is a list: a cost is a whole number, such as len(v)"},
		{"parquet", "label", nil, every(20, 0, 1), ""},
		{"parquet", "len(embedding)", nil, every(20, 3), ""},
		{"parquet", "len(messages)", nil, every(20, 0, 1, 2, 3), ""},
		{"parquet", "nope", nil, nil, `no field "nope": the fields are image.bytes, image.path, label, caption, messages, embedding`},
		{"arrow", "len(ids)", &seven, []uint32{3, 0, 1, 7}, ""},
		{"arrow", "len(words)", &seven, []uint32{2, 0, 3, 7}, ""},
		{"arrow", "len(text)", &seven, []uint32{2, 0, 3, 7}, ""},
		{"arrow", "bytes(ids)", &seven, []uint32{12, 0, 4, 7}, ""},
		{"arrow", "n", &seven, []uint32{1, 65535, 300, 7}, ""},
		{"arrow", "n * n", &seven, []uint32{1, 4294836225, 90000, 7}, ""},
		{"arrow", "signed", &seven, []uint32{1, 127, 7, 3}, ""},
		{"arrow", "large", &seven, []uint32{1, 4294967295, 7, 2}, ""},
		{"arrow", "large*signed", &seven, []uint32{1, 7, 7, 6}, ""},
		{"arrow", "len(text)", nil, nil, "sample a/000000003: it has no text, but day, large, ratio, signed; --missing N gives such samples a cost"},
		{"arrow", "signed", nil, nil, "sample a/000000002: \"-1\" is not from 0 to 2^32-1; --missing N gives such samples a cost"},
		{"arrow", "large", nil, nil, "sample a/000000002: \"4294967296\" is not from 0 to 2^32-1; --missing N gives such samples a cost"},
		{"arrow", "ratio", &seven, nil, "ratio is a float (double): a cost is a whole number"},
		{"arrow", "day", nil, nil, "day is date32: a cost is a whole number, such as len(day)"},
		{"arrow", "text", nil, nil, `sample a/000000000: "é" is not a number: a cost is a whole number`},
		{"arrow", "words", nil, nil, "words is a list: a cost is a whole number, such as len(words)"},
		{"arrow", "len(n)", nil, nil, "n is uint16, which has no length: use n, bytes(n) or a file"},
		{"jsonl", "id", nil, []uint32{3, 0}, ""},
		{"jsonl", "json.id", nil, []uint32{3, 0}, ""},
		{"jsonl", "len(ids)", nil, []uint32{2, 0}, ""},
		{"jsonl", "len(text)", nil, []uint32{2, 0}, ""},
		{"jsonl", "meta.h", nil, []uint32{5, 65536}, ""},
		{"jsonl", "meta.w", nil, []uint32{9, 65536}, ""},
		{"jsonl", "meta.w*meta.h", &seven, []uint32{45, 7}, ""},
		{"jsonl", "minus", &seven, nil, "no sample has a cost: \"-"},
		{"jsonl", "none", nil, nil, "sample a/000000000: the value is null; --missing N gives such samples a cost"},
		{"jsonl", "large", nil, nil, "\"4294967296\" is not from 0 to 2^32-1"},
		{"jsonl", "half", &seven, nil, "a float: a cost is a whole number"},
		{"jsonl", "text", nil, nil, `"é" is not a number: a cost is a whole number`},
		{"jsonl", "len(meta)", nil, nil, "meta is a JSON object or boolean, which has no length"},
		{"jsonl", "nope", nil, nil, "sample a/000000000: it has no nope, but json, json.half, json.id, json.ids, json.large, json.meta, json.meta.w, json.minus, json.none, json.text; --missing"},
		{"jsonl", "nope", &seven, nil, "no sample has a cost: it has no nope, but json, json.half"},
		{"jsonl", "bytes(id)", nil, nil, "sample a/000000000: it has no id, but json; --missing"},
		{"csv", "n", &seven, nil, "sample a/000000002: 1.5 is a float: a cost is a whole number"},
		{"csv", "n", nil, nil, "sample a/000000001: \"\" is not from 0 to 2^32-1; --missing"},
		{"csv", "len(text)", nil, []uint32{6, 0, 1}, ""},
		{"csv", "name", nil, nil, `"a" is not a number: a cost is a whole number`},
		{"csv", "nope", nil, nil, `no field "nope": the fields are csv, name, n, text`},
		{"tsv", "1", nil, []uint32{1, 22}, ""},
		{"tsv", "len(0)", nil, []uint32{1, 1}, ""},
		{"tar", "cls", nil, []uint32{12, 9}, ""},
		{"tar", "len(txt)", nil, []uint32{7, 0}, ""},
		{"tar", "bytes(txt)", nil, []uint32{7, 0}, ""},
		{"tar", "len(npy)", nil, []uint32{5, 0}, ""},
		{"tar", "len(ids)", nil, []uint32{2, 1}, ""},
		{"tar", "w*cls", nil, []uint32{36, 36}, ""},
		{"tar", "meta.json.w", nil, []uint32{3, 4}, ""},
		{"tar", "txt", nil, nil, `sample a: "caption" is not a number: a cost is a whole number`},
		{"tar", "npy", nil, nil, "sample a: npy is a list: a cost is a whole number, such as len(npy)"},
		{"tar", "len(json)", nil, nil, "sample a: json is a JSON object or boolean, which has no length"},
		{"tar", "len(jpg)", nil, nil, "sample a: it has no jpg, but cls, json, json.ids, json.npy, meta.json, meta.json.w, npy, txt; --missing"},
		{"records", "len(bin)", nil, []uint32{2, 2, 2}, ""},
	} {
		w := datasets[c.dataset]
		d, _ := indexed(t, w.objects, w.opt)
		got, err := from(t, d, c.spec, c.missing)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s %s: got %v, want %s", c.dataset, c.spec, err, c.err)
		case c.err == "" && (err != nil || !slices.Equal(got, c.want)):
			t.Errorf("%s %s: got %d, %v, want %d", c.dataset, c.spec, got, err, c.want)
		}
	}
}

// twins are two shards with the same keys, and one with other keys.
func twins(t *testing.T) map[string][]byte {
	return map[string][]byte{"a.tar": tarOf(t, "k0.txt", "x", "k1.txt", "y"), "b.tar": tarOf(t, "k0.txt", "z", "k1.txt", "z"), "c.tar": tarOf(t, "k2.txt", "z")}
}

// TestRead reads files of costs in any order.
func TestRead(t *testing.T) {
	same, _ := indexed(t, twins(t), build.Options{})
	unique, _ := indexed(t, map[string][]byte{"a.tar": tarOf(t, "k0.txt", "x", "k1.txt", "y", "k2.txt", "z")}, build.Options{ChunkSize: 1})
	seven := uint64(7)
	for _, c := range []struct {
		d       location.Dataset
		text    string
		missing *uint64
		want    []uint32
		err     string
	}{
		{unique, "k0\t1\nk1\t4294967295\nk2\t3\n", nil, []uint32{1, 4294967295, 3}, ""},
		{unique, "k2\t3\r\n\nk0\t 1 \nk1\t0\ta.tar", nil, []uint32{1, 0, 3}, ""},
		{unique, "k1\t5\nk2\t-4\n", &seven, []uint32{7, 5, 7}, ""},
		{unique, "k1\t5\n", nil, nil, "sample k0: no line has its key; --missing N gives such samples a cost"},
		{unique, "k1\t5\nk0\t1\nk1\t5\n", nil, nil, "sample k1: it has two costs"},
		{unique, "k2\t5\nk2\t1\n", &seven, nil, "sample k2: it has two costs"},
		{unique, "k2\t5\nk2\t1\ta.tar\n", &seven, nil, "it has two costs"},
		{unique, "k0\t5\nk0\t1\n", &seven, nil, "sample k0: it has two costs"},
		{unique, "k3\t5\n", &seven, nil, `invalid: no sample has 1 of 1 keys: "k3"`},
		{unique, "k0 5\nk1", &seven, nil, "line k0 5: must have a key, a tab and a number"},
		{unique, "k0\t1\nk1\t\t\n", &seven, nil, "line k1: must have a key, a tab and a number"},
		{unique, "k0\t-1\n", &seven, nil, "no line has a cost"},
		{unique, "", &seven, nil, "no line has a cost"},
		{unique, "k0\t2.5\n", &seven, nil, "sample k0: 2.5 is a float: a cost is a whole number"},
		{unique, "k0\tx\n", &seven, nil, `sample k0: "x" is not a number: a cost is a whole number`},
		{unique, "k0\t-1\n", nil, nil, `sample k0: "-1" is not from 0 to 2^32-1; --missing`},
		{unique, "k0\t4294967296\n", nil, nil, `sample k0: "4294967296" is not from 0 to 2^32-1; --missing`},
		{same, "k0\t1\ta.tar\nk1\t2\ta.tar\nk0\t3\tb.tar\nk1\t4\tb.tar\nk2\t5\n", nil, []uint32{1, 2, 3, 4, 5}, ""},
		{same, "k2\t5\nk1\t4\tb.tar\nk0\t3\tb.tar\nk1\t2\ta.tar\nk0\t1\ta.tar\n", nil, []uint32{1, 2, 3, 4, 5}, ""},
		{same, "k0\t1\n", &seven, nil, `add a tab and the shard after each key that several shards have: 1 of 1 keys: "k0"`},
		{same, "k0\t1\td.tar\n", &seven, nil, `no sample has 1 of 1 keys: "k0\td.tar"`},
	} {
		named, err := selection.ReadNamed(strings.NewReader(c.text), "")
		if err != nil {
			t.Fatal(err)
		}
		all, err := Read(t.Context(), c.d.Index, named, c.missing)
		got := all.All
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%.80q: got %d, %v, want %d, %s", c.text, got, err, c.want, c.err)
		}
	}
}

// TestCompute_ReadsOnlyTheIndex checks for which specs no chunk is read.
func TestCompute_ReadsOnlyTheIndex(t *testing.T) {
	d, st := indexed(t, map[string][]byte{"a.arrow": arrowFile(t)}, build.Options{})
	st.Delete(t.Context(), "a.arrow")
	seven := uint64(7)
	for spec, reads := range map[string]bool{"bytes(ids)": false, "len(ids)": false, "len(text)*bytes(n)": false, "len(words)": true, "n": true, "len(text)*n": true} {
		if _, err := from(t, d, spec, &seven); (err != nil) != reads {
			t.Errorf("%s: got %v, want a read: %t", spec, err, reads)
		}
	}
}

// TestCompute_Damage computes costs of shards that are missing, damaged or copied.
func TestCompute_Damage(t *testing.T) {
	whole := tarOf(t, "a.cls", "12", "b.cls", "7")
	damaged := bytes.Replace(whole, []byte("12"), []byte("13"), 1)
	for _, c := range []struct {
		edit func(*memstore.Store)
		want string
	}{
		{func(st *memstore.Store) { st.Set("a.tar", whole) }, ""}, // another version with the same bytes
		{func(st *memstore.Store) { st.Set("a.tar", damaged) }, "a.tar was copied or changed since it was indexed"},
		{func(st *memstore.Store) { _ = st.Delete(t.Context(), "a.tar") }, "a.tar is missing"},
	} {
		d, st := indexed(t, map[string][]byte{"a.tar": whole}, build.Options{})
		c.edit(st)
		_, err := from(t, d, "cls", nil)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, chunkindex.ErrCorrupt) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestSummary compares quantiles with their definition: the least cost that a share of the samples
// does not exceed.
func TestSummary(t *testing.T) {
	for _, n := range []int{1, 2, 3, 99, 100, 101, 70_000} {
		all, sum := make([]uint32, n), 0.0
		for i := range all {
			all[i] = uint32(i) * 2654435761
			sum += float64(all[i])
		}
		got := Costs{slices.Clone(all), 3}.Summary()
		slices.Sort(all)
		if want := (Summary{n, 3, all[0], sum / float64(n), all[(n+1)/2-1], all[(99*n+99)/100-1], all[n-1]}); got != want {
			t.Errorf("%d costs: got %+v, want %+v", n, got, want)
		}
	}
}

func TestParseSpec_Refuses(t *testing.T) {
	for _, text := range []string{"", "a*", "len(a", "len()", "max(a)", "len(a)*(b)", "len(len(a))"} {
		if s, err := ParseSpec(text); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%q: must be len(FIELD), ", text)) {
			t.Errorf("%q: got %v, %v", text, s, err)
		}
	}
}
