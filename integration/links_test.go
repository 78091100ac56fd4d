package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesLeadSomewhere checks that every link of a page leads to a file of the repository, and to
// an existing heading. At least one page links to each page of docs.
func TestPagesLeadSomewhere(t *testing.T) {
	fenced, link := regexp.MustCompile("(?s)```.*?\n```"), regexp.MustCompile(`\]\(([^)\s]+)\)`)
	followed, led := 0, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(readText(t, path), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: got a link to %s, where nothing is", path, m[1])
				continue
			}
			led[target] = led[target] || file != "" && target != path
			if anchor != "" && !headings(readText(t, target))[anchor] {
				t.Errorf("%s: got a link to %s, want one of the headings there", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../docs/*.md", "../docs/spec/*.md", "../docs/dev/*.md", "../docs/adr/0*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: got %d pages, %v", pattern, len(pages), err)
		}
		for _, page := range pages {
			if !led[page] {
				t.Errorf("%s: got no link from another page: docs/adr/README.md lists decisions, docs/index.md all else", page)
			}
		}
	}
	if followed < 50 {
		t.Errorf("got %d links, want all that the pages have", followed)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// headings returns the anchors of a page, as repository hosts generate them.
func headings(page string) map[string]bool {
	heading, noSlug := regexp.MustCompile(`(?m)^#+ +(.*)$`), regexp.MustCompile(`[^\pL\pN\- _]`)
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}
