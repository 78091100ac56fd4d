package hub_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format/hub"
)

// TestClasses reads the notations of several versions of the datasets library.
func TestClasses(t *testing.T) {
	const label = `{"names": ["cat", "dog"], "_type": "ClassLabel"}`
	for text, want := range map[string]map[string][]string{
		`{}`:                         {},
		`{"info": {"features": {}}}`: {},
		`{"info": {"features": {"image": {"_type": "Image"}, "label": ` + label + `}}, "fingerprint": "x"}`:  {"label": {"cat", "dog"}},
		`{"info": {"features": {"tags": {"feature": ` + label + `, "_type": "Sequence"}}}}`:                  {"tags": {"cat", "dog"}},
		`{"info": {"features": {"tags": {"feature": ` + label + `, "length": 3, "_type": "List"}}}}`:         {"tags": {"cat", "dog"}},
		`{"info": {"features": {"tags": [` + label + `]}}}`:                                                  {"tags": {"cat", "dog"}},
		`{"info": {"features": {"a": {"b": ` + label + `, "_type": {"dtype": "int64", "_type": "Value"}}}}}`: {"a.b": {"cat", "dog"}},
		`{"info": {"features": {"objects": {"feature": {"kind": ` + label + `}, "_type": "Sequence"}}}}`:     {"objects.kind": {"cat", "dog"}},
		`{"info": {"features": {"label": {"num_classes": 3, "_type": "ClassLabel"}}}}`:                       {}, // the class names are unknown
		`{"info": {"features": {"n": {"dtype": "int64", "_type": "Value"}}}}`:                                {},
	} {
		got, err := hub.Classes([]byte(text))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", text, err, d)
		}
	}
	deep := strings.Repeat(`{"a":`, 100) + "{}" + strings.Repeat("}", 100)
	for _, text := range []string{``, `[]`, `{"info": {"features": {"a": 1}}}`, `{"info": {"features": {"a": ` + deep + `}}}`, strings.Repeat(" ", hub.MaxFeatures+1), `{"info": {"features": {"a": {"_type": "ClassLabel", "names": "x"}}}}`} {
		if got, err := hub.Classes([]byte(text)); err == nil {
			t.Errorf("%.80s: got %v, want it refused", text, got)
		}
	}
}

// FuzzClasses checks that no description crashes the parser.
func FuzzClasses(f *testing.F) {
	f.Add([]byte(`{"info": {"features": {"a": {"b": {"names": ["cat"], "_type": "ClassLabel"}}, "t": [{"feature": {}, "_type": "List"}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := hub.Classes(text); err != nil && got != nil {
			t.Error("got classes and an error")
		}
	})
}
