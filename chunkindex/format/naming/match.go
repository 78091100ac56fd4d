package naming

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Excludes is the mark at the start of a pattern that excludes objects.
const Excludes = "!"

// Matches reports whether a pattern selects a key. A pattern with a slash applies to the whole key,
// any other pattern to the key's base name; both use path.Match. {a,b} matches either alternative.
// A leading ! inverts the pattern.
func Matches(pattern, key string) bool {
	if pattern == "" {
		return true
	}
	if others, found := strings.CutPrefix(pattern, Excludes); found {
		return !Matches(others, key)
	}
	if !strings.Contains(pattern, "/") {
		key = path.Base(key)
	}
	return slices.ContainsFunc(Braces(pattern, key), func(one string) bool {
		ok, err := path.Match(one, key)
		return ok && err == nil
	})
}

// Braces expands the braces of a pattern into alternatives: {a,b} into words, and {000..012} into the
// numbers in this range that the key contains. Other braces are literal, as in a shell.
func Braces(pattern, key string) []string {
	before, rest, open := strings.Cut(pattern, "{")
	inside, after, closed := strings.Cut(rest, "}")
	words := strings.Split(inside, ",")
	if first, last, ranged := strings.Cut(inside, ".."); ranged && closed {
		words = numbers(first, last, key)
	} else if !open || !closed || len(words) == 1 {
		return []string{pattern}
	}
	var all []string
	for _, one := range words {
		all = append(all, Braces(before+one+after, key)...)
	}
	return all
}

// numbers returns the numbers from first to last that a key contains, with as many digits as first,
// or more where the number has more.
func numbers(first, last, key string) (found []string) {
	least, err1 := strconv.ParseUint(first, 10, 32)
	most, err2 := strconv.ParseUint(last, 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	if strings.HasPrefix(last, "0") {
		first = strings.Repeat("0", max(0, len(last)-len(first))) + first
	}
	for width := len(first); width <= len(last); width++ {
		for i := range max(0, len(key)-width+1) {
			digits := key[i : i+width]
			n, err := strconv.ParseUint(digits, 10, 32)
			if err == nil && n >= least && n <= most && (width == len(first) || digits[0] != '0') && !slices.Contains(found, digits) {
				found = append(found, digits)
			}
		}
	}
	return found
}
