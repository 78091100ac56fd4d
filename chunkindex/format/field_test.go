package format_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
)

func TestWidth(t *testing.T) {
	for kind, want := range map[string]int{
		"bool": 1, "uint16": 2, "float16": 2, "float": 4, "double": 8, "date32": 4, "time32[ms]": 4, "timestamp[us]": 8, "timestamp[ns, tz=Europe/Berlin]": 8,
		"decimal128(10, 2)": 16, "decimal256(70, -3)": 32, "fixed_size_binary[5]": 5, "duration[s]": 8,
	} {
		if n, ok := format.Width(kind); n != want || !ok {
			t.Errorf("%s: got %d bytes, %v, want %d", kind, n, ok, want)
		}
	}
	for _, kind := range []string{"", "utf8", "binary", "list<float>", "fixed_size_binary[5", "fixed_size_binary[-1]", "fixed_size_binary[4294967296]", "struct<a: int8>", "[", "("} {
		if n, ok := format.Width(kind); ok {
			t.Errorf("%s: got %d bytes, want none", kind, n)
		}
	}
}

func TestElement(t *testing.T) {
	for list, want := range map[string]string{"list<float>": "float", "list<fixed_size_binary[4]>": "fixed_size_binary[4]", "list<list<int8>>": "list<int8>"} {
		if got, ok := format.Element(list); got != want || !ok {
			t.Errorf("%s: got %q, %v, want %q", list, got, ok, want)
		}
	}
	for _, other := range []string{"float", "list<float", "list", ""} {
		if got, ok := format.Element(other); ok {
			t.Errorf("%s: got %q, want no list", other, got)
		}
	}
}
