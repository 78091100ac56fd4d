package hub

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits of a pattern. Each ** may try every place in a key, so there are few.
const (
	maxPattern = 1024 // bytes
	maxStars   = 3    // elements that are **
)

// Pattern takes objects by their keys. An element between slashes takes an element of the key as path.Match has it; the element ** takes
// any number of elements, none too.
type Pattern struct {
	text     string
	elements []string
	begin    string // of every key that it takes
}

// ParsePattern reads a pattern. A leading ./ or / means nothing.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	stars := 0
	if len(text) > maxPattern {
		return p, fmt.Errorf("a pattern of %d bytes, want %d at most", len(text), maxPattern)
	}
	if strings.Contains(text, "://") {
		return p, fmt.Errorf("%q lies elsewhere: only what lies below the dataset's address is read", text)
	}
	for element := range strings.SplitSeq(strings.TrimLeft(strings.TrimPrefix(text, "./"), "/"), "/") {
		switch element {
		case "", ".", "..":
			return p, fmt.Errorf("%q: an element of the path is %q", text, element)
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
		return p, errors.New("a pattern with more than three elements **")
	}
	p.begin = strings.Join(p.elements, "/")
	if i := strings.IndexAny(p.begin, `*?[\`); i >= 0 {
		p.begin = p.begin[:i]
	}
	if len(p.elements) > 1 && p.elements[len(p.elements)-1] == "**" {
		p.begin = strings.TrimSuffix(p.begin, "/") // a/** takes a, too
	}
	return p, nil
}

// String is the pattern as it was read.
func (p Pattern) String() string { return p.text }

// Match says whether the pattern takes a key.
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
