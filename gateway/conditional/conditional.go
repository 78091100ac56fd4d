// Package conditional evaluates conditional and range headers (RFC 9110, sections 13 and 14). It
// only decides, and writes no response.
package conditional

import (
	"net/http"
	"strings"
)

// Range is a part of a body, in bytes.
type Range struct{ Start, Length int64 }

// Names reports whether header lines contain an entity tag, in either spelling, or are a single *.
func Names(lines []string, tag, same string) bool {
	if len(lines) == 1 && strings.TrimSpace(lines[0]) == "*" {
		return true
	}
	for _, line := range lines {
		for line != "" {
			line = strings.TrimLeft(line, " \t,")
			got, rest, ok := cutETag(line)
			if !ok {
				break
			}
			if got == tag || got == same {
				return true
			}
			line = rest
		}
	}
	return false
}

// cutETag splits an entity tag off the front of s.
func cutETag(s string) (tag, rest string, ok bool) {
	start := 0
	if strings.HasPrefix(s, "W/") {
		start = 2
	}
	if len(s) <= start || s[start] != '"' {
		return "", s, false
	}
	end := strings.IndexByte(s[start+1:], '"')
	if end < 0 {
		return "", s, false
	}
	end += start + 2
	return s[:end], s[end:], true
}

// Select evaluates Range and If-Range. It returns the part of a body of size bytes to send. The
// whole body is sent without a range, for several ranges, for an invalid range, and if If-Range
// does not match.
func Select(r *http.Request, etag string, size int64) (Range, Kind) {
	whole := Range{Length: size}
	lines := r.Header.Values("Range")
	if r.Method != http.MethodGet || len(lines) != 1 {
		return whole, Whole
	}
	if cond := r.Header.Values("If-Range"); len(cond) > 0 && (len(cond) > 1 || strings.TrimSpace(cond[0]) != etag) {
		return whole, Whole
	}
	part, kind := parse(lines[0], size)
	if kind == Whole {
		return whole, Whole
	}
	return part, kind
}

// Kind is the kind of a requested range.
type Kind int

// Kinds of requested ranges.
const (
	Whole   Kind = iota // the whole body
	Part                // one range of bytes
	Outside             // a range after the end of the body
)

// parse parses one byte range for a body of size bytes.
func parse(s string, size int64) (Range, Kind) {
	const unit = "bytes="
	if len(s) < len(unit) || !strings.EqualFold(s[:len(unit)], unit) {
		return Range{}, Whole
	}
	first, last, ok := strings.Cut(strings.Trim(s[len(unit):], " \t"), "-")
	if !ok {
		return Range{}, Whole
	}
	from, fromOK := number(first, size)
	to, toOK := number(last, size)
	switch {
	case first == "" && toOK: // suffix range: the last to bytes
		if to == 0 || size == 0 {
			return Range{}, Outside
		}
		return Range{Start: size - to, Length: to}, Part
	case fromOK && last == "":
		to = size
	case fromOK && toOK:
		if compareDigits(first, last) > 0 {
			return Range{}, Whole
		}
	default:
		return Range{}, Whole
	}
	if from >= size {
		return Range{}, Outside
	}
	return Range{Start: from, Length: min(to, size-1) - from + 1}, Part
}

// number parses a position with any number of digits. Values above size become size.
func number(s string, size int64) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n < size {
			d := int64(s[i] - '0')
			if n > size/10 {
				n = size
			} else {
				n = min(n*10+d, size)
			}
		}
	}
	return n, s != ""
}

// compareDigits compares two strings of digits as numbers.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
