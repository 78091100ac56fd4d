package webdataset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// TestScan_RejectsReservedNames checks that names that WebDataset's own reader skips, reserves or
// rejects are rejected by name, because a batch with such names would silently lose samples. The
// table is based on WebDataset's tariterators.
func TestScan_RejectsReservedNames(t *testing.T) {
	for name, want := range map[string]string{
		"__": "skips members", "___": "skips members", "__a__": "skips members", "__a.b__": "skips members", "__a__/b.jpg": "skips members",
		"____/b": "skips members", "__a__b__": "skips members", "__index__/deep/b.jpg": "skips members",
		"__a": "", "__a__.jpg": "", "__a__b/c.jpg": "", "__/b": "", "___/b": "", "x/__a__": "", "a__": "", "__a/b__": "", "__index__.json": "",
		"a.__key__": "is reserved", "d/a.__URL__": "is reserved", "a.__bad__": "is reserved", "a.__local_path__": "is reserved",
		"a.__key__.txt": "", "a.key": "", "a.__meta__": "",
	} {
		_, err := scan(archive(t, member{name: name, body: "x"}))
		var where *format.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: got %v, want a sample", name, err)
		case want != "" && (!errors.As(err, &where) || where.Name != name || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}

func TestScan_ExtensionsThatDifferInCase(t *testing.T) {
	for want, names := range map[string][]string{
		"differ only in case":                      {"a.jpg", "a.JPG"},
		"two members of one sample have this name": {"a.JPG", "a.JPG"},
	} {
		_, err := scan(archive(t, member{name: names[0]}, member{name: names[1]}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", names, err, want)
		}
	}
	got, err := scan(archive(t, member{name: "a.JPG"}, member{name: "a.Cls"}, member{name: "b.jpg"}))
	if d := cmp.Diff([]string{"a|JPG|Cls", "b|jpg"}, keys(got)); err != nil || d != "" {
		t.Errorf("case is preserved: got %v, %s", err, d)
	}
}
