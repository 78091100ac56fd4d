package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
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

// TestSurvey_RefusesJSONOfManySamples compares the commands in the errors. TestOddities executes
// these commands.
func TestSurvey_RefusesJSONOfManySamples(t *testing.T) {
	many := records(1000)
	oneLine, err := json.Marshal(many[:3])
	if err != nil {
		t.Fatal(err)
	}
	var several []byte
	for _, r := range many[:5] {
		several = append(several, indented(t, r)...)
	}
	nine := scantest.Objects{}
	for i := range 9 {
		nine[fmt.Sprintf("d/%d.json", i)] = indented(t, many[:2])
	}
	const each = `do jq -c "arrays[], objects" "$f" > "${f%.json}.jsonl"; done`
	for name, c := range map[string]struct {
		objects       scantest.Objects
		what, command string
	}{
		"an array":                  {scantest.Objects{"alpaca data.json": indented(t, many)}, "alpaca data.json is an array of JSON", `jq -c '.[]' 'alpaca data.json' > 'alpaca data.jsonl'`},
		"an array on one line":      {scantest.Objects{"a.json": append([]byte("\xef\xbb\xbf "), oneLine...)}, "a.json is an array of JSON", `jq -c '.[]' 'a.json' > 'a.jsonl'`},
		"objects one after another": {scantest.Objects{"d/it's.json": several}, "d/it's.json is several JSON objects", `jq -c '.' 'd/it'\''s.json' > 'd/it'\''s.jsonl'`},
		"a long object and others": {
			scantest.Objects{"a.json": append(indented(t, map[string]any{"long": strings.Repeat("x", 30<<10)}), several...)}, "a.json is several JSON objects", `jq -c '.' 'a.json' > 'a.jsonl'`,
		},
		"two arrays beside one object": {
			scantest.Objects{"a.json": indented(t, many[:3]), "b.json": indented(t, many[:2]), "c.json": []byte("{}")}, "a.json is an array of JSON", "for f in 'a.json' 'b.json' 'c.json'; " + each,
		},
		"more arrays than a command has": {nine, ".json is an array of JSON", `find . -name '*.json' -not -path '*/.*' | while IFS= read -r f; ` + each},
	} {
		_, err := files.Format().Survey(t.Context(), c.objects, format.Options{})
		choice, ok := errors.AsType[*format.ChoiceError](err)
		if !ok || !strings.Contains(choice.Cause, c.what) || len(choice.Ways) != 2 || choice.Ways[0].Command != c.command || choice.Ways[1].Flag != "format" || choice.Ways[1].Value != "files" {
			t.Errorf("%s: got %v, want %q, and %q or --format files", name, err, c.what, c.command)
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
