// Package conditional evaluates conditional and range headers (RFC 9110, sections 13 and 14). It
// only decides, and writes no response.
package conditional

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Range is a part of a body, in bytes.
type Range struct{ Start, Length int64 }

// entityTag matches an entity tag in a list.
var entityTag = regexp.MustCompile(`(W/)?"[^"]*"`)

// Names reports whether header lines contain an entity tag, in either spelling, or are a single *.
func Names(lines []string, tag, same string) bool {
	if len(lines) == 1 && strings.TrimSpace(lines[0]) == "*" {
		return true
	}
	for _, line := range lines {
		for _, got := range entityTag.FindAllString(line, -1) {
			if got == tag || got == same {
				return true
			}
		}
	}
	return false
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
	from, fromOK := number(first)
	to, toOK := number(last)
	end := uint64(size)
	switch {
	case first == "" && toOK: // suffix range: the last to bytes
		from, to = end-min(to, end), end
	case fromOK && last == "":
		to = end
	case !fromOK || !toOK || from > to:
		return Range{}, Whole
	}
	if from >= end {
		return Range{}, Outside
	}
	return Range{Start: int64(from), Length: int64(min(to, end-1) - from + 1)}, Part
}

// number parses a position. Values from 2^64 become the largest number.
func number(s string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}
