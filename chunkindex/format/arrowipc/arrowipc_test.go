package arrowipc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/arrowipc"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// batch returns rows with a number and a text. The numbers begin with from.
func batch(from, rows int) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := from; i < from+rows; i++ {
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		if texts := b.Field(1).(*array.StringBuilder); i%3 == 0 {
			texts.AppendNull()
		} else {
			texts.Append(strings.Repeat("x", i%7))
		}
	}
	return b.NewRecordBatch()
}

// file encodes batches as a file; stream encodes them as a stream.
func file(t testing.TB, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(batches[0].Schema()), ipc.WithZstd())
	if err != nil {
		t.Fatal(err)
	}
	return written(t, &out, w, batches)
}

func stream(t testing.TB, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var out bytes.Buffer
	return written(t, &out, ipc.NewWriter(&out, ipc.WithSchema(batches[0].Schema())), batches)
}

func written(t testing.TB, out *bytes.Buffer, w interface {
	Write(arrow.RecordBatch) error
	Close() error
}, batches []arrow.RecordBatch,
) []byte {
	t.Helper()
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSamples checks that the rows of files and streams become samples with a part for each
// non-null value. The objects have the names that save_to_disk uses.
func TestSamples(t *testing.T) {
	o := scantest.Objects{
		"train/data-00000-of-00002.arrow": stream(t, batch(0, 5), batch(5, 0), batch(5, 3)), "train/data-00001-of-00002.arrow": file(t, batch(8, 4), batch(12, 1)),
		"train/state.json": []byte("{}"), "train/dataset_info.json": []byte("{}"), "empty.feather": nil,
	}
	got, err := scantest.Scan(t.Context(), arrowipc.Format(), format.Options{}, o)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, c := range []struct {
		stem    string
		samples int
	}{{"train/data-00000-of-00002", 8}, {"train/data-00001-of-00002", 5}} {
		samples := got[c.stem+".arrow"]
		if len(samples) != c.samples {
			t.Fatalf("%s: got %d samples, want %d", c.stem, len(samples), c.samples)
		}
		for k, s := range samples {
			want := []scantest.Part{{Ext: "n", Offset: 5, Length: 4}, {Ext: "text", Offset: 9, Length: int64(i % 7)}}
			if i%3 == 0 {
				want = []scantest.Part{{Ext: "n", Offset: 1, Length: 4}}
			}
			if d := cmp.Diff(want, s.Parts); d != "" || s.Key != fmt.Sprintf("%s/%09d", c.stem, k) {
				t.Errorf("sample %s: %s", s.Key, d)
			}
			i++
		}
	}
	scantest.Parts(t, scantest.Dataset{Format: arrowipc.Format(), Objects: o})
}

// TestRefused checks that unsupported files are rejected by name, with advice.
func TestRefused(t *testing.T) {
	whole, streamed := file(t, batch(0, 5)), stream(t, batch(0, 5), batch(5, 5))
	other := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.PrimitiveTypes.Int32}}, nil), batch(0, 5).Columns()[:1], 5)
	for name, c := range map[string]struct {
		objects scantest.Objects
		want    string
	}{
		"a file that was cut":                 {scantest.Objects{"a.arrow": whole[:len(whole)-10]}, "truncated"},
		"a stream that was cut in a batch":    {scantest.Objects{"a.arrow": streamed[:len(streamed)-20]}, "truncated"},
		"a stream without the mark of end":    {scantest.Objects{"a.arrow": streamed[:len(streamed)-8]}, "has no end marker"},
		"another kind of file":                {scantest.Objects{"a.arrow": bytes.Repeat([]byte("x"), 100)}, "does not begin like an Arrow file or an Arrow stream"},
		"a few bytes":                         {scantest.Objects{"a.arrow": []byte("ARR")}, "too few"},
		"Feather of version 1":                {scantest.Objects{"a.feather": []byte("FEA1 and so on")}, "Feather file of version 1"},
		"two types of one column":             {scantest.Objects{"a.arrow": whole, "b.arrow": stream(t, other)}, `object b.arrow: column "text" is of type int32 not null here, and of type utf8 in a.arrow`},
		"compressed as a whole":               {scantest.Objects{"a.arrow.gz": whole}, "compressed as a whole"},
		"a footer that is longer than a file": {scantest.Objects{"a.arrow": append(bytes.Clone(whole[:len(whole)-10]), "\xff\xff\x00\x00ARROW1"...)}, "footer"},
	} {
		t.Run(name, func(t *testing.T) { scantest.Refuses(t, arrowipc.Format(), format.Options{}, c.objects, c.want) })
	}
}

// TestFields checks that the schema determines the types of the parts.
func TestFields(t *testing.T) {
	d, err := arrowipc.Format().Survey(t.Context(), scantest.Objects{"a.arrow": stream(t, batch(0, 1))}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := framing.Read("arrow", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	want := []format.Field{{Name: "n", Encoding: "raw", Type: "int32"}, {Name: "text", Encoding: "raw", Type: "utf8", Nullable: true}}
	if d := cmp.Diff(want, format.FieldsOf(f)); d != "" {
		t.Error(d)
	}
}

// TestClasses checks that class names that the datasets library stores in a schema are preserved,
// for files and streams.
func TestClasses(t *testing.T) {
	plain := batch(0, 3)
	about := arrow.NewMetadata([]string{"pandas", "huggingface"}, []string{"{}", `{"info": {"features": {"n": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}`})
	labelled := array.NewRecordBatch(arrow.NewSchema(plain.Schema().Fields(), &about), plain.Columns(), plain.NumRows())
	for name, stored := range map[string][]byte{"file": file(t, labelled), "stream": stream(t, labelled)} {
		d, err := arrowipc.Format().Survey(t.Context(), scantest.Objects{"a.arrow": stored}, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := framing.Read("arrow", d.Framing)
		if err != nil {
			t.Fatal(err)
		}
		want := []format.Field{{Name: "n", Encoding: "raw", Type: "int32", Classes: []string{"cat", "dog"}}, {Name: "text", Encoding: "raw", Type: "utf8", Nullable: true}}
		if d := cmp.Diff(want, format.FieldsOf(f)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// object is an object in memory that implements format.Ranges.
type object []byte

func (o object) ReadRange(_ context.Context, offset int64, p []byte) error {
	copy(p, o[offset:])
	return nil
}

// opened opens a file for decoding until the test ends.
func opened(t testing.TB, stored []byte) format.Decoded {
	t.Helper()
	d, err := arrowipc.Format().Survey(t.Context(), scantest.Objects{"a.arrow": stored}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Decode(t.Context(), 0, object(stored))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

// TestScan_SkipsEmptyBatches checks that a chunk's parameters contain only the record batches that
// have rows.
func TestScan_SkipsEmptyBatches(t *testing.T) {
	stored := stream(t, batch(0, 5), batch(5, 0), batch(5, 0), batch(5, 3))
	in := opened(t, stored)
	all, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	first, ok := in.Frames.At(0)
	last, found := in.Frames.At(int64(len(all)) - 1)
	if !ok || !found || first == last {
		t.Fatalf("got frames %+v, %+v", first, last)
	}
	for _, f := range []codec.Frame{first, last} {
		params, _ := in.Frames.Params(f.Decoded, f.DecodedEnd-1)
		again := make([]byte, f.DecodedEnd-f.Decoded)
		if err := codec.Decode(in.Codec, params, stored[f.Stored:f.StoredEnd], 0, again); err != nil || !bytes.Equal(again, all[f.Decoded:f.DecodedEnd]) {
			t.Errorf("frame at %d: got %v, and other rows from the parameters", f.Stored, err)
		}
	}
}

// TestSurvey_RowsOfLitData checks the rows of chunks that LitData 0.2.76 wrote from dicts, and that
// index.json selects the chunks.
func TestSurvey_RowsOfLitData(t *testing.T) {
	o := scantest.Files(t, "../litdata/testdata/rows", "chunk-0-0.bin", "chunk-0-1.bin", "index.json")
	o["other.arrow"] = []byte("not listed")
	for _, named := range []bool{false, true} {
		got, err := scantest.Scan(t.Context(), arrowipc.Format(), format.Options{Named: named}, o)
		if err != nil || len(got) != 2 {
			t.Fatalf("named %v: got %d shards, %v, want 2", named, len(got), err)
		}
		for key, want := range map[string]string{"chunk-0-0.bin": "id text tags score", "chunk-0-1.bin": "id text tags"} {
			s := got[key][min(1, len(got[key])-1)]
			var parts []string
			for _, p := range s.Parts {
				parts = append(parts, p.Ext)
			}
			if d := cmp.Diff(want, strings.Join(parts, " ")); d != "" || s.Key != strings.TrimSuffix(key, ".bin")+"/000000001" {
				t.Errorf("%s: key %s, parts %s", key, s.Key, d)
			}
		}
	}
	for want, change := range map[string]func(){
		"it does not end with rows of Arrow": func() { o["chunk-0-1.bin"] = bytes.Repeat([]byte("x"), len(o["chunk-0-1.bin"])) },
		"which does not exist":               func() { delete(o, "chunk-0-1.bin") },
		"exceed the object":                  func() { b := o["chunk-0-0.bin"]; b[len(b)-9] = 0xff },
	} {
		o = scantest.Files(t, "../litdata/testdata/rows", "chunk-0-0.bin", "chunk-0-1.bin", "index.json")
		change()
		if _, err := scantest.Scan(t.Context(), arrowipc.Format(), format.Options{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
