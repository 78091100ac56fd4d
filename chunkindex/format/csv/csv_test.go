package csv_test

import (
	"bytes"
	"context"
	encodingcsv "encoding/csv"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/csv"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func sample(key string, offset, text, end int64) scantest.Sample {
	return scantest.Sample{Key: key, Offset: offset, Length: text + end, Parts: []scantest.Part{{Ext: "csv", Length: text}}}
}

func TestShards(t *testing.T) {
	long := `"` + strings.Repeat("x\n", 300<<10) + `",2`
	for name, c := range map[string]struct {
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"records": {
			scantest.Objects{"a.csv": []byte("a,b\n1,2\n\n,\r\n\"x\ny\",\"\"\"\r\n\"\n"), "d/b.CSV": nil, "README.md": nil},
			map[string][]scantest.Sample{
				"a.csv":   {sample("a/000000000", 4, 3, 1), sample("a/000000001", 9, 1, 2), sample("a/000000002", 12, 12, 1)},
				"d/b.CSV": nil,
			},
		},
		"byte order mark, carriage returns, no line feed": {
			scantest.Objects{"a.csv": []byte("\xef\xbb\xbfa,b\r\n1,\"2\""), "b.csv": []byte("a,b\n1,"), "c.csv": []byte("\n\r\na,b")},
			map[string][]scantest.Sample{
				"a.csv": {sample("a/000000000", 8, 5, 1)}, "b.csv": {sample("b/000000000", 4, 2, 1)}, "c.csv": nil,
			},
		},
		"a record longer than any buffer": {
			scantest.Objects{"a.csv": []byte("a,b\n" + long + "\n3,4\n")},
			map[string][]scantest.Sample{"a.csv": {sample("a/000000000", 4, int64(len(long)), 1), sample("a/000000001", int64(len(long))+5, 3, 1)}},
		},
		"one column": {
			scantest.Objects{"a.csv": []byte("\n\na\n1\n\"\"\n\" \"\n")},
			map[string][]scantest.Sample{"a.csv": {sample("a/000000000", 4, 1, 1), sample("a/000000001", 6, 2, 1), sample("a/000000002", 9, 3, 1)}},
		},
		"a table beside pictures is none": {scantest.Objects{"a.csv": []byte("a\n1\n"), "b.jpg": []byte("x")}, nil},
		"no records":                      {scantest.Objects{"a.csv": nil, "b.csv": []byte("\n\n")}, map[string][]scantest.Sample{"a.csv": nil, "b.csv": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			scantest.Finds(t, csv.Format(), format.Options{}, c.objects, c.want)
		})
	}
	scantest.Finds(t, csv.Format(), format.Options{Named: true}, scantest.Objects{"a": []byte("a,b\n1,2\n"), "b.txt": []byte("a,b\r\n"), "LICENSE": []byte("mine")},
		map[string][]scantest.Sample{"a": {sample("a/000000000", 4, 3, 1)}, "b.txt": nil})
	scantest.Finds(t, csv.Format(), format.Options{}, scantest.Objects{"a.tsv": []byte("a\tb\n1,2\t\"3\t\"\n")},
		map[string][]scantest.Sample{"a.tsv": {{Key: "a/000000000", Offset: 4, Length: 9, Parts: []scantest.Part{{Ext: "tsv", Length: 8}}}}})
}

// TestSurvey_Header checks that the first record is a sample if the user says that there is no
// header. If the user says nothing, the first record is a header only if it looks like one.
func TestSurvey_Header(t *testing.T) {
	absent, present := format.Options{Header: format.HeaderAbsent}, format.Options{Header: format.HeaderPresent}
	numbers := scantest.Objects{"a.csv": []byte("\xef\xbb\xbf1,2\n3,4"), "b.csv": nil, "c.csv": []byte("\n5,6\r\n")}
	scantest.Finds(t, csv.Format(), absent, numbers, map[string][]scantest.Sample{
		"a.csv": {sample("a/000000000", 3, 3, 1), sample("a/000000001", 7, 3, 1)}, "b.csv": nil, "c.csv": {sample("c/000000000", 1, 3, 2)},
	})
	scantest.Finds(t, csv.Format(), present, scantest.Objects{"a.csv": []byte("1,2\n3,4\n")}, map[string][]scantest.Sample{"a.csv": {sample("a/000000000", 4, 3, 1)}})
	scantest.Refuses(t, csv.Format(), present, numbers, `shard c.csv: at offset 1: header: it is "5,6", but that of a.csv is "1,2": shards of one dataset must have the same header; if they have none, use --header absent`)
	for first, data := range map[string]string{
		"1,2": "a number", "cat,-0.5": "a number", "x,1e9,y": "a number", `"7",b`: "a number", "a, 3": "a number",
		"2024-05-17,rain": "a date, or other digits", "a,12:30:00": "a date, or other digits", "host,10.0.0.1": "a date, or other digits", `"2024-05-17T01:02:03Z",x`: "a date, or other digits",
		"cat,https://example.org/1": "an address", "cat/1.jpg,cat": "the name of a file", "a.WAV,hello": "the name of a file", "yes,no,yes": "two equal fields",
		"a,b": "", "x1,2y": "", "nan,inf": "", ",": "", "T,Z": "", "caption.txt,jpg": "", ",a,,b": "", "What is it?,Paris.": "",
	} {
		d, err := csv.Format().Survey(t.Context(), scantest.Objects{"d/a.csv": []byte(first + "\n")}, format.Options{})
		if data != "" && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("object d/a.csv: its first record, %q, has %s, so", first, data)) || !strings.Contains(err.Error(), "--header absent")) {
			t.Errorf("%s: got %v, want the question whether it is a header", first, err)
		}
		if data == "" && (err != nil || !strings.Contains(d.Assumed(), fmt.Sprintf("%q, as a header: if it is a sample, index again with --header absent", first))) {
			t.Errorf("%s: got %+v, %v, want it named as the header", first, d, err)
		}
	}
	for text, want := range map[string]string{
		"1,2\n3\n":               "at offset 4: record 2: 1 fields, but 2 in the first record of a.csv",
		"1,2\n\xef\xbb\xbf3,4\n": "at offset 4: record 2: a byte order mark",
		"1,2\n3,\"4\n":           "record 2: the file ends inside a quoted field",
		"x\n\ny\n":               "at offset 2: record 2: an empty line in a file of one column",
	} {
		scantest.Refuses(t, csv.Format(), absent, scantest.Objects{"a.csv": []byte(text)}, want)
	}
	scantest.Refuses(t, csv.Format(), absent, scantest.Objects{"a.csv": []byte("1,2\n"), "b.csv": []byte("1,2,3\n")}, "shard b.csv: at offset 0: record 1: 3 fields, but 2 in the first record of a.csv")
	d, err := csv.Format().Survey(t.Context(), numbers, absent)
	if err != nil || string(d.Framing) != `{"delimiter":",","header":"","fields":2}` || d.Assumed != nil || d.Shards[2].Says != string(d.Framing) {
		t.Errorf("got %+v, %v", d, err)
	}
	if f, err := framing.Read("csv", d.Framing); err != nil {
		t.Error(err)
	} else if before, after, err := f.Frame([]uint32{4}); len(before)+len(after) > 0 || err != nil {
		t.Errorf("got %q, %q, %v around a batch, want nothing", before, after, err)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\n1,\"2\n3":     "shard a.csv: at offset 6: record 1: the file ends inside a quoted field",
		"a,b\n1,2\n3,x\"\n": "at offset 11: record 2: a quote inside an unquoted field",
		"a,b\n1,\"x\"y\n":   "at offset 9: record 1: bytes after the closing quote",
		"a,b\n1\r2,3\n":     "at offset 5: record 1: a carriage return inside an unquoted field",
		"a,b\n1,2\r":        "at offset 7: record 1: a carriage return inside an unquoted field",
		"a,b\n1\n":          "at offset 4: record 1: 1 fields, but 2 in the first record of a.csv",
		"a,b\n1,2\n1,2,3\n": "at offset 8: record 2: 3 fields, but 2 in the first record of a.csv",
		"a,b\n \t\n":        "record 1: 1 fields",
		"a;b\n1;2\n1,5;2\n": "at offset 8: record 2: 2 fields, but 1 in the first record of a.csv: the header has semicolons: write commas, as pandas.read_csv(file, sep=';').to_csv(file, index=False) does",
		"a\n \n":            "only spaces",
		"a\n1\n\n2\n":       "at offset 4: record 2: an empty line in a file of one column",
		"a\r\n1\r\n\r\n":    "at offset 6: record 2: an empty line in a file of one column",
		"a\n\n":             "at offset 2: record 1: an empty line in a file of one column",
		"a,b\n\xff,1\n":     "record 1: not UTF-8",
		"\xff,b\n1,1\n":     "header: not UTF-8",
		"a,\"b\n1,2\n":      "object a.csv: first record: the file ends inside a quoted field",
		"a,\"b\"c\n1,2\n":   "object a.csv: first record: bytes after the closing quote",
	} {
		scantest.Refuses(t, csv.Format(), format.Options{}, scantest.Objects{"a.csv": []byte(text)}, want)
	}
	scantest.Refuses(t, csv.Format(), format.Options{}, scantest.Objects{"a.csv": nil, "b.csv": []byte("x,y\n"), "c.csv": []byte("\nx,z\n1,2\n")},
		`shard c.csv: at offset 1: header: it is "x,z", but that of b.csv is "x,y": shards of one dataset must have the same header`)
	scantest.Refuses(t, csv.Format(), format.Options{}, scantest.Objects{"a.csv": nil, "b.tsv": nil}, "the names of the objects a.csv and b.tsv indicate different delimiters")
	scantest.Refuses(t, csv.Format(), format.Options{}, scantest.Objects{"a.csv": bytes.Repeat([]byte("x"), 2<<20)}, "its first record is longer than 1048576 bytes")
}

func TestFraming(t *testing.T) {
	f, err := framing.Read("csv", []byte(`{"delimiter":",","header":"a,\"b\n\"\r\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	before, after, err := f.Frame([]uint32{1, 2})
	if string(before) != "a,\"b\n\"\r\n" || after != nil || err != nil || f.ContentType() != "text/csv" {
		t.Errorf("got %q, %q, %v of %s", before, after, err, f.ContentType())
	}
	if got := format.FieldsOf(f); len(got) != 1 || got[0].Name != "csv" {
		t.Errorf("got fields %+v", got)
	}
	if f, err := framing.Read("csv", []byte(`{"delimiter":"\t","header":""}`)); err != nil || f.ContentType() != "text/tab-separated-values" {
		t.Errorf("got %v, %v", f, err)
	}
	for _, constants := range []string{
		``, `{}`, `{"delimiter":";","header":""}`, `{"delimiter":",","header":"a"}`, `{"delimiter":",","header":"a\nb\n"}`, `{"delimiter":",","header":"\"a\n"}`,
		`{"delimiter":",","header":"a\n","more":1}`, `{"delimiter":",","header":"a\n","fields":1}`, `{"delimiter":",","header":"","fields":-1}`, `{"delimiter":",","header":"` + strings.Repeat("a", 2<<20) + `\n"}`,
	} {
		if _, err := framing.Read("csv", []byte(constants)); err == nil {
			t.Errorf("%.80s: got no error", constants)
		}
	}
}

// endless reads a field whose quote is never closed.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, "a\n\""), nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestEndlessRecord(t *testing.T) {
	d, err := csv.Format().Survey(t.Context(), scantest.Objects{"a.csv": []byte("a\n")}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = d.Scan(t.Context(), 0, &endless{}, scantest.Nothing{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "at offset 2: record 1: longer than 67108864 bytes: is a closing quote missing?") {
		t.Errorf("got %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8*csv.MaxRecord { // the race detector itself allocates memory
		t.Errorf("got %d bytes allocated", got)
	}
}

func TestFaultOfTheStore(t *testing.T) {
	scantest.Faults(t, csv.Format(), format.Options{}, "a.csv", []byte("\xef\xbb\xbfa,b\n1,\"2\n\"\n3,4"))
}

// judged returns the records that Go's encoding/csv reads from a file.
func judged(file []byte) ([][]string, error) {
	r := encodingcsv.NewReader(bytes.NewReader(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))))
	return r.ReadAll()
}

// FuzzScanCSV checks that a file is either rejected, or a batch of its records in reverse order
// contains the same records as the file.
func FuzzScanCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "\xef\xbb\xbfa,b\r\n\"x\ny\",\"\"\"\"\r\n\n,", "a\n\"\"\n\n1", "a,b\n1,\"", "a,b\n\r\r\n", "\n\xef\xbb\xbf"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for header, o := range []format.Options{{Header: format.HeaderAbsent}, {Header: format.HeaderPresent}} {
			reads(t, b, o, header)
		}
	})
}

// reads compares the records of a file with the records that Go's encoding/csv reads. header is the
// number of header records at the beginning.
func reads(t *testing.T, b []byte, o format.Options, header int) {
	objects := scantest.Objects{"a.csv": b}
	found, err := scantest.Scan(context.Background(), csv.Format(), o, objects)
	if err != nil {
		scantest.Refused(t, err)
		return
	}
	d, err := csv.Format().Survey(context.Background(), objects, o)
	if err != nil {
		t.Fatal(err)
	}
	framing, err := framing.Read("csv", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	batch, _, _ := framing.Frame(nil)
	batch = slices.Clone(batch)
	for _, s := range slices.Backward(found["a.csv"]) {
		one := b[s.Offset:min(s.Offset+s.Length, int64(len(b)))]
		batch = append(batch, one...)
		if one[len(one)-1] != '\n' {
			batch = append(batch, '\n')
		}
	}
	want, err := judged(b)
	if err != nil {
		t.Fatalf("%q is accepted, but the library rejects it: %v", b, err)
	}
	got, err := judged(batch)
	slices.Reverse(want[min(header, len(want)):])
	if err != nil || !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("%q gives %q: got %s, %v, want %s", b, batch, fmt.Sprint(got), err, fmt.Sprint(want))
	}
}
