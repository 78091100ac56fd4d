package naming_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "a/b", true},
		{"*.jpg", "a/b.jpg", true},
		{"*.jpg", "a/b.jpeg", false},
		{"a/*.jpg", "a/b.jpg", true},
		{"a/*", "a/b/c", false},
		{"*/*/c", "a/b/c", true},
		{"b", "a/b", true},
		{"a", "a/b", false},
		{"[ab].txt", "d/b.txt", true},
		{"!b.jpg", "a/b.jpg", false},
		{"!b.jpg", "a/c.jpg", true},
		{"!a/b.jpg", "b/b.jpg", true},
		{"!*.{jpg,png}", "a/b.png", false},
		{"!*.{jpg,png}", "a/b.txt", true},
		{"s-{000..012}.tar", "s-000.tar", true},
		{"s-{000..012}.tar", "d/s-012.tar", true},
		{"s-{000..012}.tar", "s-013.tar", false},
		{"s-{000..012}.tar", "s-12.tar", false},
		{"s-{000..012}.tar", "s-0012.tar", false},
		{"s-{8..12}.{tar,zip}", "s-9.zip", true},
		{"s-{8..12}.tar", "s-12.tar", true},
		{"s-{8..12}.tar", "s-08.tar", false},
		{"2024{00..09}-{1..3}", "202407-2", true},
		{"2024{00..09}-{1..3}", "202407-4", false},
		{"!s-{000..012}.tar", "s-013.tar", true},
		{"s-{8..010}.tar", "s-009.tar", true},
		{"s-{8..010}.tar", "s-9.tar", false},
		{"{a..c}", "b", false},
		{"{..2}", "2", false},
		{"{1..}", "1", false},
		{"{1..2", "1", false},
	} {
		if got := naming.Matches(c.pattern, c.key); got != c.want {
			t.Errorf("%q of %q: got %v, want %v", c.pattern, c.key, got, c.want)
		}
	}
}
