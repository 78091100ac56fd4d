// Package vectors stores test results in JSON files, one vector per line, which other languages
// check too. The files ensure that released behaviour does not change.
package vectors

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Hold compares computed vectors with a file, and returns the content of the file. With update it
// first writes them to the file. V is a struct of slices of vectors. The tag of each field is its
// JSON name.
func Hold[V any](t *testing.T, file string, update bool, got V) V {
	t.Helper()
	if update {
		b, err := encode(got)
		if err == nil {
			err = os.WriteFile(file, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want V
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&want); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-committed +computed):\n%s", file, diff)
	}
	return want
}

// Python runs a script that compares a file with the results of the script's own implementation.
func Python(t *testing.T, script, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-B", script, file).CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %s %s: %v\n%s", script, file, err, out)
	}
	t.Logf("%s", out)
}

// encode writes one vector per line.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	open := "{"
	for field, list := range reflect.ValueOf(v).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		out.WriteString(open + `"` + name + "\": [\n")
		for i := range list.Len() {
			b, err := json.Marshal(list.Index(i).Interface())
			if err != nil {
				return nil, err
			}
			out.Write(b)
			if i < list.Len()-1 {
				out.WriteByte(',')
			}
			out.WriteByte('\n')
		}
		open = "],\n"
	}
	out.WriteString("]}\n")
	return out.Bytes(), nil
}
