package address

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
)

// maxParams bounds the parameters of one request. The longest valid request has 20.
const maxParams = 24

// Fault is one thing that is wrong with a request.
type Fault struct {
	Name   string `json:"name"` // of the parameter
	Reason string `json:"reason"`
}

// Query is a decoded query string. It collects all faults, so that one answer names every one of them.
type Query struct {
	values map[string]string
	faults []Fault
}

// ParseQuery reads a raw query: each name once, known names only, no empty values. Values stay as they were
// sent; only "key", "shard", "fields", "table" and the colon of "subset" may be escaped.
func ParseQuery(raw string, known ...string) *Query {
	q := &Query{values: map[string]string{}}
	if raw == "" {
		return q
	}
	parts := strings.Split(raw, "&")
	if len(parts) > maxParams {
		q.Fail("query", "more than %d parameters", maxParams)
		return q
	}
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		_, repeated := q.values[name]
		switch {
		case name == "":
			q.Fail("query", "a parameter without a name")
		case !slices.Contains(known, name):
			q.Fail(Bounded(name), "unknown parameter")
		case repeated:
			q.Fail(name, "given more than once")
		case value == "":
			q.values[name] = ""
			q.Fail(name, "empty")
		default:
			q.values[name] = value
		}
	}
	return q
}

// Fail records a fault of a parameter.
func (q *Query) Fail(name, format string, args ...any) {
	q.faults = append(q.faults, Fault{Name: name, Reason: fmt.Sprintf(format, args...)})
}

// Faults returns the faults found so far.
func (q *Query) Faults() []Fault { return q.faults }

// Adopt adds faults that were found elsewhere, each under its name behind prefix.
func (q *Query) Adopt(prefix string, faults []Fault) {
	for _, f := range faults {
		q.faults = append(q.faults, Fault{prefix + f.Name, f.Reason})
	}
}

// Failed reports whether one of these parameters has a fault. What depends on it cannot be checked then.
func (q *Query) Failed(names ...string) bool {
	return slices.ContainsFunc(q.faults, func(f Fault) bool { return slices.Contains(names, f.Name) })
}

// Err returns one refusal for all faults, or nil.
func (q *Query) Err() error {
	if len(q.faults) == 0 {
		return nil
	}
	names := make([]string, len(q.faults))
	for i, f := range q.faults {
		names[i] = f.Name + ": " + f.Reason
	}
	r := Refuse(Invalid, "%s", strings.Join(names, "; "))
	r.Faults = q.faults
	return r
}

// Has reports whether a parameter was given with a value.
func (q *Query) Has(name string) bool { return q.values[name] != "" }

// Given reports whether a parameter was given, be it empty.
func (q *Query) Given(name string) bool {
	_, given := q.values[name]
	return given
}

// Value returns the value of a parameter as it was sent; "" where it was left out.
func (q *Query) Value(name string) string { return q.values[name] }

// Fix gives a parameter a value that the path implies. Another value in the query is a fault.
func (q *Query) Fix(name, value string) {
	switch q.values[name] {
	case "":
		q.values[name] = value
	case value:
	default:
		q.Fail(name, "must be %s here", value)
	}
}

// Number returns the value of a parameter between lo and hi, or def where it was left out.
func (q *Query) Number(name string, def, lo, hi uint64) uint64 {
	s := q.values[name]
	if s == "" {
		return def
	}
	return q.Decimal(name, s, lo, hi)
}

// Decimal reads s strictly as the value of name. A fault gives lo, so that what depends on it can still be checked.
func (q *Query) Decimal(name, s string, lo, hi uint64) uint64 {
	n, reason := ParseDecimal(s)
	switch {
	case reason != "":
		q.Fail(name, "%s", reason)
		return lo
	case n < lo:
		q.Fail(name, "must be at least %d", lo)
		return lo
	case n > hi:
		q.Fail(name, "must be at most %d", hi)
		return lo
	}
	return n
}

// Word returns the value of a parameter that must be one of some words, or def where it was left out.
func (q *Query) Word(name, def string, allowed ...string) string {
	s := q.values[name]
	if s == "" {
		return def
	}
	if !slices.Contains(allowed, s) {
		q.Fail(name, "must be one of %s", strings.Join(allowed, ", "))
		return def
	}
	return s
}

// Digest returns the value of a parameter that names an object by its content; "" where it was left out.
func (q *Query) Digest(name string) string {
	s := q.values[name]
	if s != "" && !IsDigest(s) {
		q.Fail(name, notADigest)
		return ""
	}
	return s
}

// Text returns the unescaped value of a parameter that must be given.
func (q *Query) Text(name string) string {
	if !q.Given(name) {
		q.Fail(name, "missing")
		return ""
	}
	return q.unescaped(name)
}

// unescaped returns the unescaped value of a parameter.
func (q *Query) unescaped(name string) string {
	t, err := url.QueryUnescape(q.values[name])
	if err != nil {
		q.Fail(name, "bad escape")
	}
	return t
}

const notADigest = "must be 64 hexadecimal digits in lower case"

// IsDigest reports whether s is a SHA-256 as URLs write it: 64 hexadecimal digits in lower case.
func IsDigest(s string) bool {
	const digits = 64
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == digits
}

// ParseDecimal reads an unsigned decimal of 64 bits: digits only, no leading zeros. Otherwise it returns the reason.
func ParseDecimal(s string) (n uint64, reason string) {
	if s == "" {
		return 0, "empty"
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, "must be an unsigned decimal number, digits only"
		}
	}
	if len(s) > 1 && s[0] == '0' {
		return 0, "must not have leading zeros"
	}
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if n > (math.MaxUint64-d)/10 {
			return 0, "must be below 2^64"
		}
		n = n*10 + d
	}
	return n, ""
}

// Bounded makes a caller's text fit to be repeated in an answer: short, and printable ASCII.
func Bounded(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
