package format_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
)

func TestHidden(t *testing.T) {
	for key, want := range map[string]bool{
		".DS_Store": true, "d/.DS_Store": true, "d/._a.jpg": true, ".git/config": true, "d/.cache/x/a.tar.metadata": true, ".tar": true,
		"Thumbs.db": true, "d/thumbs.db": true, "Desktop.ini": true,
		"a.jpg": false, "a./b..jpg": false, "_a.jpg": false, "__MACOSX/a": true, "d/__MACOSX/a.jpg": true, "__MACOSX": false, "./a.jpg": false, "./._a.jpg": true, "../a/../b.jpg": false, "_SUCCESS": false, "d/my.DS_Store": false, "Thumbs.db.jpg": false, "a.b/c": false,
	} {
		if got := format.Hidden(key); got != want {
			t.Errorf("%q: got %v, want %v", key, got, want)
		}
	}
}
