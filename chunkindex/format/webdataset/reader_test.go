package webdataset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// What WebDataset's own reader passes over, keeps for itself or refuses is refused by name: a batch that it reads otherwise
// than it is would lose samples in silence. The table is what its tariterators do.
func TestNamesThatWebDatasetsReaderTakesOtherwise(t *testing.T) {
	for name, want := range map[string]string{
		"__": "passes over", "___": "passes over", "__a__": "passes over", "__a.b__": "passes over", "__a__/b.jpg": "passes over",
		"____/b": "passes over", "__a__b__": "passes over", "__index__/deep/b.jpg": "passes over",
		"__a": "", "__a__.jpg": "", "__a__b/c.jpg": "", "__/b": "", "___/b": "", "x/__a__": "", "a__": "", "__a/b__": "", "__index__.json": "",
		"a.__key__": "keeps for itself", "d/a.__URL__": "keeps for itself", "a.__bad__": "keeps for itself", "a.__local_path__": "keeps for itself",
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

func TestExtensionsThatDifferInCapitals(t *testing.T) {
	for want, names := range map[string][]string{
		"differ in capitals alone": {"a.jpg", "a.JPG"},
		"two members of this name": {"a.JPG", "a.JPG"},
	} {
		_, err := scan(archive(t, member{name: names[0]}, member{name: names[1]}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", names, err, want)
		}
	}
	got, err := scan(archive(t, member{name: "a.JPG"}, member{name: "a.Cls"}, member{name: "b.jpg"}))
	if d := cmp.Diff([]string{"a|JPG|Cls", "b|jpg"}, keys(got)); err != nil || d != "" {
		t.Errorf("capitals stay as they are: got %v, %s", err, d)
	}
}
