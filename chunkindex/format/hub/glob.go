package hub

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits of a pattern. Each ** may try every position in a key, so only a few are allowed.
const (
	maxPattern = 1024 // bytes
	maxStars   = 3    // ** elements
)

// Pattern matches keys. Each element matches one path element as in path.Match; ** matches any
// number of elements, including none.
type Pattern struct {
	text     string
	elements []string
	begin    string // literal prefix of all matching keys
}

// ParsePattern parses a pattern. It ignores a leading ./ or /.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	stars := 0
	if len(text) > maxPattern {
		return p, fmt.Errorf("pattern of %d bytes exceeds the limit of %d", len(text), maxPattern)
	}
	if strings.Contains(text, "://") {
		return p, fmt.Errorf("%q is outside the dataset: only objects below the dataset's address are read", text)
	}
	for element := range strings.SplitSeq(strings.TrimLeft(strings.TrimPrefix(text, "./"), "/"), "/") {
		switch element {
		case "", ".", "..":
			return p, fmt.Errorf("%q: the path contains the element %q, which is not allowed", text, element)
		case "**":
			stars++
		default:
			if _, err := path.Match(element, ""); err != nil {
				return p, fmt.Errorf("%q: %w", text, err)
			}
		}
		p.elements = append(p.elements, element)
	}
	if stars > maxStars {
		return p, errors.New("a pattern has more than three elements **")
	}
	p.begin = strings.Join(p.elements, "/")
	if i := strings.IndexAny(p.begin, `*?[\`); i >= 0 {
		p.begin = p.begin[:i]
	}
	if len(p.elements) > 1 && p.elements[len(p.elements)-1] == "**" {
		p.begin = strings.TrimSuffix(p.begin, "/") // a/** also matches a
	}
	return p, nil
}

// String returns the original pattern.
func (p Pattern) String() string { return p.text }

// Match reports whether the pattern matches a key.
func (p Pattern) Match(key string) bool {
	return strings.HasPrefix(key, p.begin) && match(p.elements, strings.Split(key, "/"))
}

func match(pattern, key []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for skip := range len(key) + 1 {
				if match(pattern[1:], key[skip:]) {
					return true
				}
			}
			return false
		}
		if len(key) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], key[0]); !ok || err != nil {
			return false
		}
		pattern, key = pattern[1:], key[1:]
	}
	return len(key) == 0
}
