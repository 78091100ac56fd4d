package framing

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// DType is the type of an element in NumPy's notation ("<u2"): byte order, kind and size. A time
// type also has a unit.
type DType struct {
	name string
	size uint64
}

// String returns NumPy's notation.
func (d DType) String() string { return d.name }

// Size returns the number of bytes of an element.
func (d DType) Size() uint64 { return d.size }

// ParseDType parses a type in NumPy's notation, or the NumPy name of a fixed-size type, such as
// "uint16". Names mean little-endian order.
func ParseDType(s string) (DType, error) {
	if known, ok := namedDType(s); ok {
		s = known
	}
	d, err := parseDType(s)
	if err != nil {
		return DType{}, fmt.Errorf("dtype %.100q: %w", s, err)
	}
	return d, nil
}

func namedDType(s string) (string, bool) {
	known, ok := map[string]string{
		"bool": "|b1", "uint8": "|u1", "int8": "|i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
		"uint64": "<u8", "int64": "<i8", "float16": "<f2", "float32": "<f4", "float64": "<f8",
	}[s]
	return known, ok
}

// dtypes matches the types of NumPy that have a fixed size.
var dtypes = regexp.MustCompile(`^([<>|])(b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[SUV][1-9][0-9]{0,9}|[mM]8\[[0-9A-Za-z]{1,16}\])$`)

func parseDType(s string) (DType, error) {
	parts := dtypes.FindStringSubmatch(s)
	switch {
	case len(s) > 1 && s[1] == 'O':
		return DType{}, fmt.Errorf("elements are Python objects, which have no fixed size")
	case parts == nil:
		return DType{}, fmt.Errorf("must be a type in NumPy's notation, such as %q or %q", "uint16", "<u2")
	}
	order, kind := parts[1], parts[2][0]
	digits, _, _ := strings.Cut(parts[2][1:], "[")
	size, err := strconv.ParseUint(digits, 10, 40)
	if err != nil || size > format.MaxSample {
		return DType{}, fmt.Errorf("an element is longer than %d bytes", format.MaxSample)
	}
	if kind == 'S' || kind == 'V' || size == 1 && kind != 'U' {
		order = "|"
	} else if order == "|" {
		return DType{}, fmt.Errorf("byte order is missing")
	}
	d := DType{name: order + parts[2], size: size}
	if kind == 'U' {
		d.size *= 4
	}
	return d, nil
}

// LargestToken returns the largest token in b. dtype is an integer type in NumPy's notation.
// LargestToken modifies b.
func LargestToken(dtype string, b []byte) (most uint64) {
	for token := range slices.Chunk(b, int(dtype[2]-'0')) {
		if dtype[0] == '<' {
			slices.Reverse(token)
		}
		value := uint64(0)
		for _, digit := range token {
			value = value<<8 | uint64(digit)
		}
		if negative := dtype[1] == 'i' && token[0] >= 0x80; !negative {
			most = max(most, value)
		}
	}
	return most
}
