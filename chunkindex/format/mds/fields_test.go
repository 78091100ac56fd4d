package mds_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// TestFieldsOfEveryEncoding tests all encodings of MosaicML Streaming 0.13, with the sizes that its
// writer stores.
func TestFieldsOfEveryEncoding(t *testing.T) {
	size := func(n int64) *int64 { return &n }
	raw := func(kind string, shape ...uint64) format.Field {
		return format.Field{Encoding: "raw", Type: kind, Shape: shape}
	}
	other := func(encoding string) format.Field { return format.Field{Encoding: encoding} }
	for _, c := range []struct {
		encoding string
		size     *int64
		want     format.Field
	}{
		{"bytes", nil, raw("binary")},
		{"str", nil, raw("utf8")},
		{"int", size(8), raw("int64")},
		{"uint8", size(1), raw("uint8")},
		{"uint16", size(2), raw("uint16")},
		{"uint32", size(4), raw("uint32")},
		{"uint64", size(8), raw("uint64")},
		{"int8", size(1), raw("int8")},
		{"int16", size(2), raw("int16")},
		{"int32", size(4), raw("int32")},
		{"int64", size(8), raw("int64")},
		{"float16", size(2), raw("float16")},
		{"float32", size(4), raw("float")},
		{"float64", size(8), raw("double")},
		{"ndarray:uint16:3,224,224", size(2 * 3 * 224 * 224), raw("uint16", 3, 224, 224)},
		{"ndarray:float32:4", size(16), raw("float", 4)},
		{"ndarray", nil, other("mds:ndarray")},
		{"ndarray:int16", nil, other("mds:ndarray:int16")},
		{"str_int", nil, other("mds:str_int")},
		{"str_float", nil, other("mds:str_float")},
		{"str_decimal", nil, other("mds:str_decimal")},
		{"pil", nil, other("mds:pil")},
		{"jpeg_array", nil, other("mds:jpeg_array")},
		{"list[png]", nil, other("mds:list[png]")},
		{"jpeg", nil, other("jpeg")},
		{"png", nil, other("png")},
		{"json", nil, other("json")},
		{"pkl", nil, other("pickle")},

		// Encodings that users add, and sizes that no writer stores.
		{"bool", size(1), other("mds:bool")},
		{"point", size(12), other("mds:point")},
		{"int", size(4), other("mds:int")},
		{"float32", nil, other("mds:float32")},
		{"ndarray:int32:3", size(4), other("mds:ndarray:int32:3")},
		{"ndarray:int32:0", size(4), other("mds:ndarray:int32:0")},
		{"ndarray:int32:4294967295,4294967295,4294967295", size(4), other("mds:ndarray:int32:4294967295,4294967295,4294967295")},
		{"ndarray:object:2", size(4), other("mds:ndarray:object:2")},
	} {
		constants, err := json.Marshal(map[string]any{"column_encodings": []string{c.encoding}, "column_names": []string{"x"}, "column_sizes": []*int64{c.size}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := framing.Read("mds", constants)
		if err != nil {
			t.Fatal(err)
		}
		c.want.Name = "x"
		if d := cmp.Diff([]format.Field{c.want}, format.FieldsOf(f)); d != "" {
			t.Errorf("%s: %s", c.encoding, d)
		}
	}
}
