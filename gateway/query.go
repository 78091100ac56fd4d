package gateway

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
)

// maxParams bounds the parameters of one request.
const maxParams = 24

// fault is one thing that is wrong with a request.
type fault struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// query is a decoded query string that collects what is wrong with it, so that one answer names every fault.
type query struct {
	values map[string]string
	faults []fault
}

// parseQuery takes the raw query apart by hand: each name once, only names that are known, no empty values.
// Values stay as they were sent; only the values of "key" and "shard", and the colon of "subset", may be escaped.
func parseQuery(raw string, known ...string) *query {
	q := &query{values: map[string]string{}}
	if raw == "" {
		return q
	}
	parts := strings.Split(raw, "&")
	if len(parts) > maxParams {
		q.fail("query", "more than %d parameters", maxParams)
		return q
	}
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		_, repeated := q.values[name]
		switch {
		case name == "":
			q.fail("query", "a parameter without a name")
		case !slices.Contains(known, name):
			q.fail(bounded(name), "unknown parameter")
		case repeated:
			q.fail(name, "given more than once")
		case value == "":
			q.values[name] = ""
			q.fail(name, "empty")
		default:
			q.values[name] = value
		}
	}
	return q
}

func (q *query) fail(name, format string, args ...any) {
	q.faults = append(q.faults, fault{Name: name, Reason: fmt.Sprintf(format, args...)})
}

// failed says whether something is wrong with one of some parameters, so that what depends on it cannot be checked.
func (q *query) failed(names ...string) bool {
	return slices.ContainsFunc(q.faults, func(f fault) bool { return slices.Contains(names, f.Name) })
}

// err is the one 400 for everything that was found wrong, or nil.
func (q *query) err() error {
	if len(q.faults) == 0 {
		return nil
	}
	names := make([]string, len(q.faults))
	for i, f := range q.faults {
		names[i] = f.Name + ": " + f.Reason
	}
	p := invalid("%s", strings.Join(names, "; "))
	p.Faults = q.faults
	return p
}

// has says whether a parameter was given with a value.
func (q *query) has(name string) bool { return q.values[name] != "" }

// number returns the value of a parameter between lo and hi, or def if it is left out.
func (q *query) number(name string, def, lo, hi uint64) uint64 {
	s := q.values[name]
	if s == "" {
		return def
	}
	return q.decimal(name, s, lo, hi)
}

// decimal reads s strictly; a fault gives lo, so that what depends on it can still be checked.
func (q *query) decimal(name, s string, lo, hi uint64) uint64 {
	n, reason := parseDecimal(s)
	switch {
	case reason != "":
		q.fail(name, "%s", reason)
		return lo
	case n < lo:
		q.fail(name, "must be at least %d", lo)
		return lo
	case n > hi:
		q.fail(name, "must be at most %d", hi)
		return lo
	}
	return n
}

// word returns the value of a parameter that is one of some words, or def if it is left out.
func (q *query) word(name, def string, allowed ...string) string {
	s := q.values[name]
	if s == "" {
		return def
	}
	if !slices.Contains(allowed, s) {
		q.fail(name, "must be one of %s", strings.Join(allowed, ", "))
		return def
	}
	return s
}

// digest returns the value of a parameter that names an object by its content; "" if it is left out.
func (q *query) digest(name string) string {
	s := q.values[name]
	if s != "" && !isDigest(s) {
		q.fail(name, "must be 64 hexadecimal digits in lower case")
		return ""
	}
	return s
}

// text returns the unescaped value of a parameter that must be given.
func (q *query) text(name string) string {
	s, given := q.values[name]
	if !given {
		q.fail(name, "missing")
		return ""
	}
	t, err := url.QueryUnescape(s)
	if err != nil {
		q.fail(name, "bad escape")
	}
	return t
}

// parseDecimal reads an unsigned decimal of 64 bits: digits only, no leading zeros. Otherwise it says why not.
func parseDecimal(s string) (n uint64, reason string) {
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

// bounded makes text of a caller fit to be repeated to him.
func bounded(s string) string {
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
