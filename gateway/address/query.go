package address

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxUnknown is the maximum number of excess parameters listed in a response.
const maxUnknown = 8

// Fault is one fault of a request.
type Fault struct {
	Name   string `json:"name"` // name of the parameter
	Reason string `json:"reason"`
}

// Query is a decoded query string. It collects all faults, so that one response reports all of
// them.
type Query struct {
	values map[string]string
	faults []Fault
}

// ParseQuery parses a raw query. Each name must be known and unique, and values must not be empty.
// Values are not unescaped. Only "key", "shard", "fields", "table", "subset", "quarantine" and the
// commas of "at" may be escaped.
func ParseQuery(raw string, known ...string) *Query {
	q := &Query{values: map[string]string{}}
	if raw == "" {
		return q
	}
	parts := strings.Split(raw, "&")
	if most := len(known) + maxUnknown; len(parts) > most {
		q.Fail("query", "has more than %d parameters", most)
		return q
	}
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		_, repeated := q.values[name]
		switch {
		case name == "":
			q.Fail("query", "a parameter has no name")
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

// Adopt adds faults of another query, with prefix before each name.
func (q *Query) Adopt(prefix string, faults []Fault) {
	for _, f := range faults {
		q.faults = append(q.faults, Fault{prefix + f.Name, f.Reason})
	}
}

// Failed reports whether one of the parameters has a fault. Checks that depend on the parameters
// must then be skipped.
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

// Has reports whether a parameter has a value.
func (q *Query) Has(name string) bool { return q.values[name] != "" }

// Given reports whether a parameter is present, even if it is empty.
func (q *Query) Given(name string) bool {
	_, given := q.values[name]
	return given
}

// Value returns the escaped value of a parameter; "" if it is missing.
func (q *Query) Value(name string) string { return q.values[name] }

// Fix sets a parameter that the path implies. A different value in the query is a fault.
func (q *Query) Fix(name, value string) {
	switch q.values[name] {
	case "":
		q.values[name] = value
	case value:
	default:
		q.Fail(name, "must be %s here", value)
	}
}

// Number returns the value of a parameter between lo and hi, or def if it is missing.
func (q *Query) Number(name string, def, lo, hi uint64) uint64 {
	s := q.values[name]
	if s == "" {
		return def
	}
	return q.Decimal(name, s, lo, hi)
}

// Decimal parses s strictly as the value of name. After a fault it returns lo, so that dependent
// checks can continue.
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

// Word returns the value of a parameter with a set of allowed words, or def if it is missing.
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

// Digest returns the value of a parameter that is a digest; "" if it is missing.
func (q *Query) Digest(name string) string {
	s := q.values[name]
	if s != "" && !IsDigest(s) {
		q.Fail(name, notADigest)
		return ""
	}
	return s
}

// Text returns the unescaped value of a required parameter.
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
		q.Fail(name, "invalid URL escape")
	}
	return t
}

const notADigest = "must be 64 hexadecimal digits in lower case"

// IsDigest reports whether s is a SHA-256 in the form of URLs: 64 hexadecimal digits in lower case.
func IsDigest(s string) bool {
	return len(s) == hex.EncodedLen(sha256.Size) && strings.Trim(s, "0123456789abcdef") == ""
}

const shortDigits = 32

// ShortGeneration returns a generation in the form that the state of a run has: the first 32 digits,
// or those of the SHA-256 of a list (docs/spec/state.md).
func ShortGeneration(generation string) string {
	if strings.Contains(generation, ",") {
		sum := sha256.Sum256([]byte(generation))
		generation = hex.EncodeToString(sum[:])
	}
	return generation[:min(shortDigits, len(generation))]
}

// IsGeneration reports whether s has the form of a generation, or of its first 32 digits.
func IsGeneration(s string) bool {
	return IsDigest(s) || len(s) == shortDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// Names reports whether a generation in a URL is that of the dataset.
func (d Dataset) Names(generation string) bool {
	return generation == d.Generation || generation == ShortGeneration(d.Generation)
}

// ParseDecimal parses an unsigned 64-bit decimal without leading zeros. On failure it returns the
// reason.
func ParseDecimal(s string) (n uint64, reason string) {
	n, err := strconv.ParseUint(s, 10, 64)
	switch {
	case s == "":
		return 0, "empty"
	case errors.Is(err, strconv.ErrSyntax):
		return 0, "must be an unsigned decimal number, with digits only"
	case len(s) > 1 && s[0] == '0':
		return 0, "must not have leading zeros"
	case err != nil:
		return 0, "must be below 2^64"
	}
	return n, ""
}

// Bounded makes a caller's text safe to repeat in a response: short and printable ASCII.
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

// DecodeBatch decodes the query of a request for a batch. epoch and batch are parts of the path.
func DecodeBatch(q *Query, d Dataset, epoch, batch string) Batch {
	b := DecodeEpoch(q, d, epoch)
	b.Number = q.Decimal("batch", batch, 0, math.MaxUint64)
	b.Skip = q.number(&skip, 0)
	return b
}

// DecodeEpoch decodes the query of a request for an epoch. The result is its first batch.
func DecodeEpoch(q *Query, d Dataset, epoch string) Batch {
	b := Batch{Plan: DecodePlan(q, d)}
	b.Epoch = q.Decimal("epoch", epoch, 0, math.MaxUint64)
	return b
}

// DecodeSamples decodes the query of a request for samples by their positions in an epoch.
func DecodeSamples(q *Query, d Dataset, epoch string) Batch {
	b := DecodeEpoch(q, d, epoch)
	b.At = q.positions()
	return b
}

// positions parses the list of positions in the given order. Positions may repeat, since samplers
// may draw with replacement.
func (q *Query) positions() []uint64 {
	if !q.Given("at") {
		q.Fail("at", "missing: must list the positions of samples, such as at=3,17,99")
	}
	if q.Failed("at") {
		return nil
	}
	parts := strings.Split(PlainCommas(q.Value("at")), ",")
	if len(parts) > MaxPositions {
		q.Fail("at", "more than %d positions", MaxPositions)
		return nil
	}
	at := make([]uint64, len(parts))
	for i, part := range parts {
		if at[i] = q.Decimal("at", part, 0, math.MaxUint64); q.Failed("at") {
			return nil
		}
	}
	return at
}

// DecodeSample decodes the query of a request that identifies a sample by its key and shard.
func DecodeSample(q *Query, d Dataset) Sample {
	s := Sample{Dataset: d.Name, Generation: d.Generation, Key: q.Text("key")}
	if q.Given("shard") {
		s.Shard = q.Text("shard")
	}
	return s
}

// subset returns the canonical form of a parameter with a subset, which may be escaped.
func (q *Query) subset(name string) string {
	s, reason := ParseSubset(q.unescaped(name))
	if reason != "" && !q.Failed(name) {
		q.Fail(name, "%s", reason)
	}
	return s.String()
}

// quarantine returns the canonical form of a parameter with a digest or list of bad samples.
func (q *Query) quarantine(name string) string {
	text := q.unescaped(name)
	bad, reason := ParseQuarantine(text)
	switch {
	case q.Failed(name):
	case reason != "":
		q.Fail(name, "%s", reason)
	case bad != nil:
		return WriteQuarantine(bad)
	}
	return text
}

// Check completes the decoding of a query. It returns one refusal for all faults, or for a
// generation that is not served.
func (d Dataset) Check(q *Query) error {
	s := PlainCommas(q.Value("generation"))
	other := s != "" && !d.Names(s)
	switch {
	case other && IsMixture(d.Name):
		q.Fail("generation", "must list the generations of the sources in order, separated by commas")
	case other && !IsGeneration(s):
		q.Fail("generation", notADigest+", or the first 32 of them")
	}
	if err := q.Err(); err != nil {
		return err
	}
	if other {
		return Refuse(NotFound, "generation %s of dataset %s is not served; the current one is %s", s, d.Name, d.Generation)
	}
	return nil
}

// fields parses a list of field names in the given order. A name cannot contain a comma.
func (q *Query) fields() []string {
	if !q.Has("fields") {
		return nil
	}
	text := q.unescaped("fields") // many clients escape commas
	if q.Failed("fields") {
		return nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxFields {
		q.Fail("fields", "has more than %d names", maxFields)
		return nil
	}
	names := make([]string, 0, len(parts))
	for _, name := range parts {
		switch {
		case name == "":
			q.Fail("fields", "has an empty name")
		case slices.Contains(names, name):
			q.Fail("fields", "%s is given more than once", Bounded(name))
		default:
			names = append(names, name)
		}
	}
	return names
}

// table parses the columns of a table.
func (q *Query) table() (keys, parts bool) {
	if !q.Has("table") {
		return false, false
	}
	text := q.unescaped("table")
	if q.Failed("table") {
		return false, false
	}
	for word := range strings.SplitSeq(text, ",") {
		switch {
		case word == "keys" && !keys:
			keys = true
		case word == "parts" && !parts:
			parts = true
		default:
			q.Fail("table", "must be keys, parts, or both, each once")
			return keys, parts
		}
	}
	return keys, parts
}
