package gateway

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCodeHasItsTitleAndItsPage: a problem's type leads to a heading of docs/errors.md, which says what to do.
func TestEveryCodeHasItsTitleAndItsPage(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tcode\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 20 {
		t.Fatalf("got %d codes in errors.go, want all of them", len(codes))
	}
	titles := map[string]string{}
	for _, m := range codes {
		code := m[1]
		words := title(code)
		if words == "" || titles[words] != "" {
			t.Errorf("%s: got title %q, which %q has too; want one of its own", code, words, titles[words])
		}
		titles[words] = code
		if heading := "\n## " + code + "\n\n" + words; !strings.Contains(string(page), heading) {
			t.Errorf("%s: docs/errors.md has no section %q", code, heading)
		}
	}
	if got := strings.Count(string(page), "\n## "); got != len(codes) {
		t.Errorf("docs/errors.md: got %d sections, want %d, one for each code", got, len(codes))
	}
}
