package costs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Spec is a product of terms, which is the cost of a sample.
type Spec []term

// term is a number that each sample has.
type term struct {
	field string
	use   use
}

type use int

const (
	number use = iota // FIELD: the value of a field
	length            // len(FIELD): its elements, or its bytes if it is text or binary
	stored            // bytes(PART): the stored length of a part
)

// ParseSpec parses a product of terms: "len(input_ids)", "width*height", "bytes(jpg)".
func ParseSpec(text string) (Spec, error) {
	var s Spec
	for field := range strings.SplitSeq(text, "*") {
		t := term{field: strings.TrimSpace(field)}
		for begin, use := range map[string]use{"len(": length, "bytes(": stored} {
			if inside, ok := strings.CutPrefix(t.field, begin); ok && strings.HasSuffix(inside, ")") {
				t = term{strings.TrimSpace(inside[:len(inside)-1]), use}
			}
		}
		if t.field == "" || strings.ContainsAny(t.field, "()") {
			return nil, fmt.Errorf("%q: must be len(FIELD), bytes(PART), FIELD, FIELD*FIELD or a file", text)
		}
		s = append(s, t)
	}
	return s, nil
}

// reads reports whether the index alone does not determine the costs. fields are those of the
// dataset, by name.
func (s Spec) reads(fields map[string]format.Field) bool {
	for _, t := range s {
		raw := fields[t.field].Encoding == format.Raw
		if t.use == number || t.use == length && !raw {
			return true
		}
	}
	return false
}

// of returns the cost of a sample.
func (s Spec) of(x *sample) (product uint64, err error) {
	product = 1
	for _, t := range s {
		v, err := t.of(x)
		if err == nil {
			v, err = limited(v)
		}
		if err == nil {
			product, err = limited(product * v)
		}
		if err != nil {
			return 0, err
		}
	}
	return product, nil
}

// absentError reports that a sample has no value that is a cost, such as a null. The user may give
// such samples a cost. All other errors end the command.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text + "; --missing N gives such samples a cost" }

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// absentIn returns the absentError in an error, nil if there is none.
func absentIn(err error) *absentError {
	e, _ := errors.AsType[*absentError](err)
	return e
}

func limited(v uint64) (uint64, error) {
	if v > math.MaxUint32 {
		return 0, absent("%d is greater than 2^32-1", v)
	}
	return v, nil
}

// parseWhole parses a number in decimal digits.
func parseWhole(text string) (uint64, error) {
	v, err := strconv.ParseUint(text, 10, 32)
	_, other := strconv.ParseFloat(text, 64)
	digits := strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == ""
	switch {
	case err == nil:
		return v, nil
	case text == "" || digits:
		return 0, absent("%.40q is not from 0 to 2^32-1", text)
	case other == nil:
		return 0, fmt.Errorf("%.40s is a float: a cost is a whole number", text)
	}
	return 0, fmt.Errorf("%.40q is not a number: a cost is a whole number", text)
}
