package millrace_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestCompatibilityNamesTests checks that the tests and files exist that the section Compatibility
// of docs/dev/testing.md names.
func TestCompatibilityNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/dev/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := bytes.Cut(text, []byte("\n## Compatibility\n"))
	page, _, _ = bytes.Cut(page, []byte("\n## "))
	tests := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	files := regexp.MustCompile("`([a-z0-9/]+/(?:testdata|vectors)[a-z0-9./-]*)`").FindAllSubmatch(page, -1)
	if len(tests) < 8 || len(files) < 5 {
		t.Fatalf("got %d tests and %d files, want those that hold each promise", len(tests), len(files))
	}
	for _, m := range tests {
		if err := exec.Command("grep", "-rq", "--include=*_test.go", "^func "+string(m[1])+"(t ", ".").Run(); err != nil {
			t.Errorf("%s: %v; want a test of that name", m[1], err)
		}
	}
	for _, m := range files {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Error(err)
		}
	}
}
