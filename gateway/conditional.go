package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/body"
)

// preconditions refuses a request whose If-Match does not name etag, and answers 304 where If-None-Match does.
// If-Unmodified-Since has no meaning here (RFC 9110, 13.1.4): nothing that is served has a date.
func (x *exchange) preconditions(etag string) (answered bool, err error) {
	if match := x.r.Header.Values("If-Match"); len(match) > 0 && !names(match, etag, etag) {
		return false, &problem{
			Status: http.StatusPreconditionFailed, Code: codePrecondition,
			Detail: "If-Match names another version than the one served here, " + etag,
		}
	}
	if !names(x.r.Header.Values("If-None-Match"), etag, "W/"+etag) {
		return false, nil
	}
	x.w.WriteHeader(http.StatusNotModified)
	return true, nil
}

// names says whether lines of a header name an entity tag, spelled in either way: in a list, or by * alone.
func names(lines []string, tag, same string) bool {
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

// selectRange reads Range and If-Range. It returns the part of a body of size bytes that is to be sent: all of it
// for no range, several ranges, a malformed one, or one whose If-Range does not hold.
func selectRange(r *http.Request, etag string, size int64) (part body.Span, partial bool, err error) {
	whole := body.Span{Length: size}
	lines := r.Header.Values("Range")
	if r.Method != http.MethodGet || len(lines) != 1 {
		return whole, false, nil
	}
	if cond := r.Header.Values("If-Range"); len(cond) > 0 && (len(cond) > 1 || strings.TrimSpace(cond[0]) != etag) {
		return whole, false, nil
	}
	part, kind := parseRange(lines[0], size)
	switch kind {
	case rangeOutside:
		return body.Span{}, false, &problem{
			Status: http.StatusRequestedRangeNotSatisfiable, Code: codeRange,
			Detail: fmt.Sprintf("the body has %d bytes", size),
		}
	case rangePart:
		return part, true, nil
	}
	return whole, false, nil
}

// part says which part of a body of size bytes is to be sent, and with which status, and sets the headers that say so. A
// client may store the body as a file of a kind.
func (x *exchange) part(etag string, size int64, kind string) (body.Span, int, error) {
	h := x.w.Header()
	h.Set("Accept-Ranges", "bytes")
	// The bytes are somebody's: a browser that is led here must neither show nor run them.
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", x.fileName(kind)))
	h.Set("Content-Security-Policy", "sandbox")
	part, partial, err := selectRange(x.r, etag, size)
	if err != nil {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		return body.Span{}, 0, err
	}
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	if !partial {
		return part, http.StatusOK, nil
	}
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, size))
	return part, http.StatusPartialContent, nil
}

type rangeKind int

const (
	rangeIgnored rangeKind = iota // not a single byte range: the whole body is the answer
	rangePart
	rangeOutside
)

// parseRange reads one byte range against a body of size bytes.
func parseRange(s string, size int64) (body.Span, rangeKind) {
	const unit = "bytes="
	if len(s) < len(unit) || !strings.EqualFold(s[:len(unit)], unit) {
		return body.Span{}, rangeIgnored
	}
	first, last, ok := strings.Cut(strings.Trim(s[len(unit):], " \t"), "-")
	if !ok {
		return body.Span{}, rangeIgnored
	}
	from, fromOK := rangeNumber(first, size)
	to, toOK := rangeNumber(last, size)
	switch {
	case first == "" && toOK: // the last so many bytes
		if to == 0 || size == 0 {
			return body.Span{}, rangeOutside
		}
		return body.Span{Start: size - to, Length: to}, rangePart
	case fromOK && last == "":
		to = size
	case fromOK && toOK:
		if compareDigits(first, last) > 0 {
			return body.Span{}, rangeIgnored
		}
	default:
		return body.Span{}, rangeIgnored
	}
	if from >= size {
		return body.Span{}, rangeOutside
	}
	return body.Span{Start: from, Length: min(to, size-1) - from + 1}, rangePart
}

// rangeNumber reads the digits of a position, which may be of any length: what lies beyond size counts as size.
func rangeNumber(s string, size int64) (n int64, ok bool) {
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

// fileName is the last part of the path where that is a file's name, or says what the body is.
func (x *exchange) fileName(kind string) string {
	if file := chi.URLParam(x.r, "file"); file != "" {
		return file
	}
	name := x.log.dataset
	if x.log.hasEpoch {
		name += fmt.Sprintf("-epoch%d", x.log.epoch)
	}
	if x.log.hasBatch {
		name += fmt.Sprintf("-batch%d", x.log.batch)
	}
	if x.log.worldSize > 1 {
		name += fmt.Sprintf("-rank%d", x.log.rank)
	}
	return name + "." + kind
}

// sendPart answers with a body that is in memory, or the part of it that Range asks for.
func sendPart(x *exchange, contentType, etag string, content []byte) error {
	part, status, err := x.part(etag, int64(len(content)), "json")
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.mustWrite(content[part.Start:part.End()])
	}
	return nil
}
