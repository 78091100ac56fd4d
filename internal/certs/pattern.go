package certs

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// CheckPattern returns an error for a pattern that can match no name: an empty one, or one with a
// malformed part.
func CheckPattern(pattern string) error {
	if pattern == "" {
		return errors.New("must be a name or pattern, not empty")
	}
	for part := range strings.SplitSeq(pattern, ".") {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("%.300q: the part %.300q between dots is malformed: * matches any characters, ? one character, [a-c] one of several; write \\ before such a sign to match it literally", pattern, part)
		}
	}
	return nil
}

// matches reports whether a name matches a pattern. Each part between dots is matched by
// path.Match, so no wildcard matches a dot or a slash. Case is ignored.
func matches(pattern, name string) bool {
	wants, parts := strings.Split(strings.ToLower(pattern), "."), strings.Split(strings.ToLower(name), ".")
	if len(wants) != len(parts) {
		return false
	}
	for i, want := range wants {
		if ok, err := path.Match(want, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
