package litdata_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// TestFieldsOfEverySerializer tests all serializers of LitData 0.2.47.
func TestFieldsOfEverySerializer(t *testing.T) {
	raw := func(kind string) format.Field { return format.Field{Encoding: "raw", Type: kind} }
	other := func(encoding string) format.Field { return format.Field{Encoding: encoding} }
	for serializer, want := range map[string]format.Field{
		"str": raw("utf8"), "bool": raw("bool"), "int": raw("int64"), "float": raw("double"), "bytes": raw("binary"),
		"jpeg": other("jpeg"), "pickle": other("pickle"), "pil": other("litdata:pil"), "jpeg_array": other("litdata:jpeg_array"),
		"tifffile": other("litdata:tifffile"), "video:mp4": other("litdata:video:mp4"), "file:txt": other("litdata:file:txt"),
		"numpy": other("litdata:numpy"), "tensor": other("litdata:tensor"),
		"no_header_numpy:3": raw("list<int64>"), "no_header_numpy:0": raw("list<int8>"), "no_header_numpy:5": raw("list<uint16>"), "no_header_numpy:13": raw("list<bool>"),
		"no_header_tensor:0": raw("list<float>"), "no_header_tensor:18": raw("list<int64>"), "no_header_tensor:19": raw("list<bool>"),
		"no_header_tensor:10": other("litdata:no_header_tensor:10"), "no_header_numpy:11": other("litdata:no_header_numpy:11"),
		"no_header_numpy:14": other("litdata:no_header_numpy:14"), "no_header_numpy": other("litdata:no_header_numpy"),
		"no_header_numpy:": other("litdata:no_header_numpy:"), "no_header_numpy:-1": other("litdata:no_header_numpy:-1"), "mine": other("litdata:mine"),
	} {
		fields := fieldsOf(t, map[string]any{"data_format": []string{serializer, "int"}, "data_spec": ""})
		want.Name = "0"
		if d := cmp.Diff([]format.Field{want, {Name: "1", Encoding: "raw", Type: "int64"}}, fields); d != "" {
			t.Errorf("%s: %s", serializer, d)
		}
	}
}

// TestFieldsOfTokens checks that the field of a token window has a shape.
func TestFieldsOfTokens(t *testing.T) {
	fields := fieldsOf(t, map[string]any{"data_format": []string{"no_header_tensor:16"}, "data_spec": "", "block_size": 129})
	want := []format.Field{{Name: "0", Encoding: "raw", Type: "int32", Shape: []uint64{129}}}
	if d := cmp.Diff(want, fields); d != "" {
		t.Error(d)
	}
}

func fieldsOf(t *testing.T, constants map[string]any) []format.Field {
	t.Helper()
	b, err := json.Marshal(constants)
	if err != nil {
		t.Fatal(err)
	}
	f, err := framing.Read("litdata", b)
	if err != nil {
		t.Fatal(err)
	}
	return format.FieldsOf(f)
}
