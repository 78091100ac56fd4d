package format_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
)

func TestOutside(t *testing.T) {
	for name, want := range map[string]bool{
		"/a": true, "..": true, "../a": true, "a/../b": true, "a/..": true, "//a": true,
		"": false, "a": false, "a..b": false, "..a/b": false, "a/...": false, "./a": false, "a/b": false,
	} {
		if got := format.Outside(name); got != want {
			t.Errorf("%q: got %t", name, got)
		}
	}
}
