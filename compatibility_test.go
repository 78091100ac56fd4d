package millrace_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// TestPagesForContributors_NameFiles checks that the files and folders exist that the guides name.
func TestPagesForContributors_NameFiles(t *testing.T) {
	pages, err := filepath.Glob("docs/dev/adding-*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "CONTRIBUTING.md", "docs/dev/testing.md") {
		for _, m := range regexp.MustCompile("`([a-z0-9_.-]+)(/[\\w./-]+)`").FindAllStringSubmatch(string(read(t, page)), -1) {
			if _, err := os.Stat(m[1]); err != nil || m[1] == "bin" || strings.Contains(m[2], "NAME") {
				continue // no folder of the repository, an output, or a pattern
			}
			checked++
			if _, err := os.Stat(m[1] + m[2]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if checked < 60 {
		t.Errorf("got %d names, want those of all guides", checked)
	}
}
