package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format/hub"
)

// TestCardClasses reads each notation of features that the datasets library writes into a card, and
// the notations in older cards.
func TestCardClasses(t *testing.T) {
	const pets = "class_label: {names: {'1': dog, '0': cat}}"
	animals := []string{"cat", "dog"}
	for features, want := range map[string]map[string][]string{
		"[]":                                 {},
		"[{name: n, dtype: int64}]":          {},
		"[{name: n, dtype: {" + pets + "}}]": {"n": animals},
		"[{name: n, dtype: {class_label: {names: [cat, dog]}}}]":                                  {"n": animals},
		"[{name: n, dtype: {class_label: {num_classes: 3}}}]":                                     {}, // the class names are unknown
		"[{name: n, list: {" + pets + "}}]":                                                       {"n": animals},
		"[{name: n, large_list: {dtype: {" + pets + "}}}]":                                        {"n": animals},
		"[{name: n, sequence: {" + pets + "}, length: 2}]":                                        {"n": animals},
		"[{name: n, list: int32}, {name: m, struct: [{name: a, dtype: {" + pets + "}}]}]":         {"m.a": animals},
		"[{name: n, list: [{name: a, dtype: {" + pets + "}}, {name: b, dtype: string}]}]":         {"n.a": animals},
		"[{name: n, list: {struct: [{name: list, dtype: {" + pets + "}}]}}]":                      {"n.list": animals},
		"[{name: n, dtype: {class_label: &l {names: [a]}}}, {name: m, dtype: {class_label: *l}}]": {"n": {"a"}, "m": {"a"}},
	} {
		got, err := hub.CardClasses([]byte("---\ndataset_info:\n  features: "+features+"\n---\n# Pets"), "")
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", features, err, d)
		}
	}
}

// TestCardClassesOfConfigurations checks that CardClasses selects the given configuration.
func TestCardClassesOfConfigurations(t *testing.T) {
	info := func(name, class string) string {
		return "- config_name: " + name + "\n  features: [{name: n, dtype: {class_label: {names: [" + class + "]}}}]\n"
	}
	for _, c := range []struct{ card, config, want string }{
		{info("en", "cat"), "", "cat"},
		{info("en", "cat") + info("default", "animal"), "", "animal"},
		{info("en", "cat") + info("de", "Katze"), "de", "Katze"},
		{info("en", "cat") + info("de", "Katze"), "", ""},
		{info("en", "cat") + info("de", "Katze"), "fr", ""},
		{info("en", "cat"), "de", ""},
	} {
		got, err := hub.CardClasses([]byte("---\ndataset_info:\n"+c.card+"---\n"), c.config)
		if err != nil || strings.Join(got["n"], " ") != c.want {
			t.Errorf("%q of %s: got %v, %v, want %q", c.config, c.card, got, err, c.want)
		}
	}
}

// TestCardsWithoutClasses checks that invalid cards are rejected, and that a card without class
// names returns none.
func TestCardsWithoutClasses(t *testing.T) {
	for _, text := range []string{"", "# Pets", "---\nlicense: mit\n---\n", "---\ndataset_info:\n  splits: []\n---\n"} {
		if got, err := hub.CardClasses([]byte(text), ""); err != nil || len(got) > 0 {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	laughs := "x0: &x0 [{name: a, dtype: int8}]\n" // expands to 3^12 columns from a kilobyte
	for i := range 12 {
		laughs += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("{name: a, struct: *x%d},", i), 3))
	}
	for _, c := range []struct{ features, want string }{
		{"[{name: n, dtype: {class_label: {names: {'0': cat, '2': dog}}}}]", "are not consecutive from 0"},
		{"[{name: n, dtype: {class_label: {names: {'0': cat, 'x': dog}}}}]", "are not consecutive from 0"},
		{"[{name: n, dtype: {class_label: 7}}]", `column "n"`},
		{"[7]", "cannot unmarshal"},
		{strings.Repeat("[{name: a, struct: ", 40) + "[]" + strings.Repeat("}]", 40), "deep"},
		{"*x12", "exceeds the limit"},
	} {
		if got, err := hub.CardClasses([]byte("---\n"+laughs+"dataset_info:\n  features: "+c.features+"\n---\n"), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: got %v, %v, want %q", c.features, got, err, c.want)
		}
	}
}

// FuzzCardClasses checks that no card crashes the parser.
func FuzzCardClasses(f *testing.F) {
	f.Add([]byte("---\ndataset_info:\n- config_name: a\n  features: [{name: n, list: {struct: [{name: m, dtype: {class_label: {names: {'0': cat}}}}]}}]\n---\n"), "a")
	f.Fuzz(func(t *testing.T, text []byte, config string) {
		if got, err := hub.CardClasses(text, config); err != nil && got != nil {
			t.Error("got classes and an error")
		}
	})
}
