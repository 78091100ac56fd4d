package datapath

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs_FunctionsExist checks that the functions and files named in docs/dev/datapath.md exist.
func TestDocs_FunctionsExist(t *testing.T) {
	page, err := os.ReadFile("../docs/dev/datapath.md")
	must(t, err)
	var code strings.Builder
	for _, dir := range []string{".", "batch", "lookahead", "policy", "chunkcache", "diskcache", "../chunkindex", "../s3backend"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				b, err := os.ReadFile(f)
				must(t, err)
				code.Write(b)
			}
		}
	}
	names := regexp.MustCompile("`(?:([A-Za-z]+)\\.)?([A-Za-z]+)\\(\\)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 50 {
		t.Errorf("got %d names of functions, want 50 at least", len(names))
	}
	for _, n := range names {
		want := `(?m)^func ` + n[2] + `\(`
		if n[1] != "" {
			want = `(?m)^func \((?:\w+ )?\*?` + n[1] + `(\[[KT]\])?\) ` + n[2] + `\(`
		}
		if !regexp.MustCompile(want).MatchString(code.String()) {
			t.Errorf("got %s, want a function of this name", n[0])
		}
	}
	for _, f := range regexp.MustCompile(`\b[a-z/]+\.go\b`).FindAllString(string(page), -1) {
		if strings.Contains(f, "/") {
			f = filepath.Join("..", f)
		}
		if _, err := os.Stat(f); err != nil {
			t.Errorf("got the file %s, want one that is there: %v", f, err)
		}
	}
}
