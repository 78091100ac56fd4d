package parquet

import "testing"

// TestDeclaredType checks which types of a writer's schema apply to a column. pyarrow applies the same
// ones.
func TestDeclaredType(t *testing.T) {
	for _, c := range []struct{ own, declared, want string }{
		{"utf8", "large_utf8", "large_utf8"},
		{"binary", "binary_view", "binary_view"},
		{"binary", "large_utf8", ""},
		{"utf8", "dictionary<int8, large_utf8>", "dictionary<int8, utf8>"},
		{"int64", "dictionary<int8, int64>", ""},
		{"int64", "duration[us]", "duration[us]"},
		{"int32", "duration[us]", ""},
		{"timestamp[ms, tz=UTC]", "timestamp[s, tz=Europe/Berlin]", "timestamp[ms, tz=Europe/Berlin]"},
		{"timestamp[ms]", "timestamp[ms, tz=Europe/Berlin]", ""},
		{"timestamp[us, tz=UTC]", "dictionary<int8, timestamp[us, tz=Europe/Berlin]>", ""},
		{"decimal128(7, 2)", "decimal32(7, 2)", "decimal32(7, 2)"},
		{"decimal128(7, 2)", "decimal32(7, 3)", ""},
		{"date32", "date64", ""},
	} {
		if got := declaredType(c.own, c.declared); got != c.want {
			t.Errorf("%s declared as %s: got %q, want %q", c.own, c.declared, got, c.want)
		}
	}
}
