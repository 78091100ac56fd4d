package arrowipc_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/arrowipc"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// labelled returns record batches with one text column, "label", each with its own dictionary. It
// also returns the same batches without dictionaries.
func labelled(t testing.TB, numbers, dictionaries []string) (coded, plain []arrow.RecordBatch) {
	t.Helper()
	parse := func(kind arrow.DataType, values string) arrow.Array {
		a, _, err := array.FromJSON(memory.DefaultAllocator, kind, strings.NewReader(values))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one := func(kind arrow.DataType, a arrow.Array) arrow.RecordBatch {
		return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "label", Type: kind, Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
	}
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	for i := range numbers {
		a := array.NewDictionaryArray(kind, parse(arrow.PrimitiveTypes.Int16, numbers[i]), parse(arrow.BinaryTypes.String, dictionaries[i]))
		texts := array.NewStringBuilder(memory.DefaultAllocator)
		for k := range a.Len() {
			if a.IsNull(k) {
				texts.AppendNull()
			} else {
				texts.Append(a.Dictionary().(*array.String).Value(a.GetValueIndex(k)))
			}
		}
		coded, plain = append(coded, one(kind, a)), append(plain, one(arrow.BinaryTypes.String, texts.NewArray()))
	}
	return coded, plain
}

// decoded returns the rows of a file twice: first as a scan returns them, and then as decoded from
// a chunk of all record batches.
func decoded(t testing.TB, stored []byte) (scanned, again []byte) {
	t.Helper()
	in := opened(t, stored)
	var err error
	if scanned, err = io.ReadAll(in); err != nil {
		t.Fatal(err)
	}
	first, _ := in.Frames.At(0)
	last, ok := in.Frames.At(int64(len(scanned)) - 1)
	if !ok {
		t.Fatal("got no frames")
	}
	again = make([]byte, len(scanned))
	params, _ := in.Frames.Params(0, int64(len(scanned))-1)
	if err := codec.Decode(in.Codec, params, stored[first.Stored:last.StoredEnd], 0, again); err != nil {
		t.Fatal(err)
	}
	return scanned, again
}

// TestScan_Dictionaries checks that the rows of a dictionary column equal the rows of a column with
// the values themselves. The record batches may share the dictionary, extend it, or replace it.
func TestScan_Dictionaries(t *testing.T) {
	numbers := []string{`[0, 1, null, 1]`, `[1, 1]`, `[]`, `[2, 0]`}
	for name, c := range map[string]struct {
		dictionaries []string
		write        func(testing.TB, ...arrow.RecordBatch) []byte
	}{
		"one, in a stream":      {[]string{`["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`}, stream},
		"one, in a file":        {[]string{`["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`, `["cat", "dog", "eel"]`}, file},
		"replaced in a stream":  {[]string{`["cat", "dog"]`, `["", "fox"]`, `[]`, `["eel", "dog", "a longer one"]`}, stream},
		"continued in a stream": {[]string{`["cat", "dog"]`, `["cat", "dog"]`, `["cat", "dog"]`, `["cat", "dog", "eel"]`}, continued},
	} {
		t.Run(name, func(t *testing.T) {
			coded, plain := labelled(t, numbers, c.dictionaries)
			got, again := decoded(t, c.write(t, coded...))
			want, _ := decoded(t, stream(t, plain...))
			if !bytes.Equal(got, want) || !bytes.Equal(again, want) {
				t.Errorf("got rows %q, and as a chunk %q, want %q", got, again, want)
			}
		})
	}
}

func continued(t testing.TB, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var out bytes.Buffer
	return written(t, &out, ipc.NewWriter(&out, ipc.WithSchema(batches[0].Schema()), ipc.WithDictionaryDeltas(true)), batches)
}

// TestScan_LimitsDictionaryValues checks that a record batch that uses too many dictionary values
// is rejected with advice. A batch that uses few values of a large dictionary must be read.
func TestScan_LimitsDictionaryValues(t *testing.T) {
	const each, values = 1 << 20, 33
	all := array.NewStringBuilder(memory.DefaultAllocator)
	for range values {
		all.Append(strings.Repeat("x", each))
	}
	dictionary := all.NewArray()
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	for used, want := range map[int]string{values: "record batch at offset ", values - 2: ""} {
		numbers := array.NewInt16Builder(memory.DefaultAllocator)
		for i := range used {
			numbers.Append(int16(i))
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "label", Type: kind}}, nil)
		stored := stream(t, array.NewRecordBatch(schema, []arrow.Array{array.NewDictionaryArray(kind, numbers.NewArray(), dictionary)}, int64(used)))
		d, err := arrowipc.Format().Survey(t.Context(), scantest.Objects{"a.arrow": stored}, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Decode(t.Context(), 0, object(stored))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, in)
		in.Close()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "its rows use more than 33554432 bytes of dictionary values")) {
			t.Errorf("%d values of %d bytes: got %v", used, each, err)
		}
	}
}
