package files_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// records returns n objects that a test encodes as indented JSON.
func records(n int) []map[string]any {
	var all []map[string]any
	for i := range n {
		all = append(all, map[string]any{"instruction": strings.Repeat("x", i%7), "n": i, "turns": []int{i}})
	}
	return all
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// TestSurvey_RefusesJSONOfManySamples names the object, and a format for each way to read it.
func TestSurvey_RefusesJSONOfManySamples(t *testing.T) {
	many := records(1000)
	var several []byte
	for _, r := range many[:5] {
		several = append(several, indented(t, r)...)
	}
	for want, objects := range map[string]scantest.Objects{
		"a.json is an array of JSON":          {"a.json": indented(t, many), "b.txt": []byte("x")},
		"number.json is an array of JSON":     {"number.json": []byte("\xef\xbb\xbf [1, 2]")},
		"d/it's.json is several JSON objects": {"d/it's.json": several, "b.txt": []byte("x")},
		"long.json is several JSON objects":   {"long.json": append(indented(t, map[string]any{"long": strings.Repeat("x", 30<<10)}), several...)},
		"largest.json is an array of JSON":    {"largest.json": indented(t, many[:3]), "b.json": []byte("[1]"), "c.json": []byte("{}")},
	} {
		_, err := files.Format().Survey(t.Context(), objects, format.Options{})
		choice, ok := errors.AsType[*format.ChoiceError](err)
		if !ok || !strings.Contains(choice.Cause, want) || len(choice.Ways) != 2 || choice.Ways[0].Value != "jsonl" || choice.Ways[1].Value != "files" {
			t.Errorf("got %v, want %q, and a choice of formats", err, want)
		}
	}
}

// TestSurvey_TakesJSONOfOneSample checks that JSON that does not hold several values is a sample.
// If the user names the format, any object is a sample.
func TestSurvey_TakesJSONOfOneSample(t *testing.T) {
	one := scantest.Objects{
		"a.json": indented(t, records(1)[0]), "b.json": []byte("{\"a\": [1]}"), "c.json": []byte("no JSON"), "d.txt": []byte("[1]"),
		"e.json": indented(t, map[string]any{"long": strings.Repeat("x", 2<<20)}), "f.json": []byte("{} trailing"),
	}
	if d, err := files.Format().Survey(t.Context(), one, format.Options{}); err != nil || len(d.Shards) != len(one) {
		t.Errorf("got %+v, %v, want each as a sample", d, err)
	}
	named := scantest.Objects{"a.json": []byte("[1, 2]")}
	if d, err := files.Format().Survey(t.Context(), named, format.Options{Named: true}); err != nil || len(d.Shards) != 1 {
		t.Errorf("named: got %+v, %v, want one sample", d, err)
	}
}
