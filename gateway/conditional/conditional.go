// Package conditional reads the headers by which a request asks for a part of a body, or for none of it (RFC 9110,
// sections 13 and 14). It decides, and answers nothing.
package conditional

import (
	"net/http"
	"strings"
)

// Range is a part of a body, in bytes.
type Range struct{ Start, Length int64 }

// Names says whether lines of a header name an entity tag, spelled in either way: in a list, or by * alone.
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

// Select reads Range and If-Range. It returns the part of a body of size bytes that is to be sent: all of it for no range,
// several ranges, a malformed one, or one whose If-Range does not hold.
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

// Kind is what a request asks for.
type Kind int

// What a request may ask for.
const (
	Whole   Kind = iota // nothing but the whole body is the answer
	Part                // one range of bytes
	Outside             // one that lies behind the body
)

// parse reads one byte range against a body of size bytes.
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
	case first == "" && toOK: // the last so many bytes
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

// number reads the digits of a position, which may be of any length: what lies beyond size counts as size.
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
