package address

import (
	"fmt"
	"strings"
	"testing"
)

func TestBounded_KeepsPrintableASCII(t *testing.T) {
	for text, want := range map[string]string{
		"\x1f \x7f~\n":          "? ?~?",
		"é":                     "?",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
		strings.Repeat("a", 65): strings.Repeat("a", 64),
	} {
		if got := Bounded(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestIsDigest_AcceptsHexadecimalDigitsOnly(t *testing.T) {
	for c, want := range map[string]bool{"/": false, "0": true, "9": true, ":": false, "`": false, "a": true, "f": true, "g": false, "A": false} {
		if got := IsDigest(strings.Repeat(c, 64)); got != want {
			t.Errorf("64 x %q: got %v, want %v", c, got, want)
		}
		if IsDigest(strings.Repeat(c, 63)) || IsDigest(strings.Repeat(c, 65)) {
			t.Errorf("63 or 65 x %q: got a digest", c)
		}
	}
}

func TestParseQuery_BoundsTheNumberOfParameters(t *testing.T) {
	var parts []string
	for i := range maxUnknown + 1 {
		parts = append(parts, fmt.Sprintf("p%d=1", i))
	}
	if q := ParseQuery(strings.Join(parts, "&"), "p0"); q.Failed("query") {
		t.Errorf("%d parameters: got them refused", len(parts))
	}
	if q := ParseQuery(strings.Join(append(parts, "more=1"), "&"), "p0"); !q.Failed("query") {
		t.Errorf("%d parameters: got them accepted", len(parts)+1)
	}
}

// TestLists_AcceptTheLongestText checks that a list in a URL may have the maximum number of bytes,
// and that a longer list is refused.
func TestLists_AcceptTheLongestText(t *testing.T) {
	for _, c := range []struct {
		name, prefix string
		most         int
		parse        func(string) (reason string)
	}{
		{"subset", "", maxSubsetText, func(text string) string { _, reason := ParseSubset(text); return reason }},
		{"quarantine", placesPrefix, maxQuarantineText, func(text string) string { _, reason := ParseQuarantine(text); return reason }},
	} {
		for n, tooLong := range map[int]bool{c.most: false, c.most + 1: true} {
			if got := strings.Contains(c.parse(c.prefix+strings.Repeat("x", n)), "is longer than"); got != tooLong {
				t.Errorf("%s of %d bytes: got too long %v, want %v", c.name, n, got, tooLong)
			}
		}
	}
}
