package arrow

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Constants of types in Schema.fbs.
const (
	typeNull            = 1
	typeInt             = 2
	typeFloat           = 3
	typeBinary          = 4
	typeUTF8            = 5
	typeBool            = 6
	typeDecimal         = 7
	typeDate            = 8
	typeTime            = 9
	typeTimestamp       = 10
	typeInterval        = 11
	typeList            = 12
	typeStruct          = 13
	typeFixedSizeBinary = 15
	typeFixedSizeList   = 16
	typeMap             = 17
	typeDuration        = 18
	typeLargeBinary     = 19
	typeLargeUTF8       = 20
	typeLargeList       = 21
	typeBinaryView      = 23
	typeUTF8View        = 24
)

// Type is the type of a column. The zero value is not a type.
type Type struct {
	kind      uint64
	params    []value // entries of the type's table
	zone      string  // time zone of a timestamp, an entry after params
	width     int     // bytes per value; 0: variable length, or no bytes of its own
	element   *Type   // element type of a list without nulls
	values    *Type   // the values of a dictionary, to which numbers of the type refer; nil: not a dictionary
	extension Pair    // name and parameters of an extension type; empty name: not an extension type
}

// Pair is an entry of a field's metadata.
type Pair struct{ Key, Value string }

// Bytes is the type of byte strings.
func Bytes() Type { return Type{kind: typeBinary} }

// Text is the type of UTF-8 strings.
func Text() Type { return Type{kind: typeUTF8} }

// Bool is the type of booleans, which have one bit each.
func Bool() Type { return Type{kind: typeBool} }

// ParseType parses a type in the notation of docs/api.md. ok is false if the stored bytes do not
// form a column of this type.
func ParseType(words string) (t Type, ok bool) {
	if t, ok = simple(words); ok {
		return t, true
	}
	name, rest, _ := strings.Cut(words, "[")
	if inner, closed := strings.CutSuffix(rest, "]"); closed {
		return bracketed(name, inner)
	}
	if inner, list := strings.CutPrefix(words, "list<"); list && strings.HasSuffix(inner, ">") {
		element, ok := ParseType(strings.TrimSuffix(inner, ">"))
		if !ok || element.width == 0 {
			return Type{}, false
		}
		return Type{kind: typeList, element: &element}, true
	}
	return decimal(words)
}

// simple returns the type for a name without parameters.
func simple(words string) (Type, bool) {
	t, ok := map[string]Type{
		"utf8": Text(), "binary": Bytes(),
		"bool": {kind: typeInt, params: integer(8, 1), width: 1, extension: Pair{"arrow.bool8", ""}}, // one byte per value, as in an array; Bool has one bit
		"int8": {kind: typeInt, params: integer(8, 1), width: 1}, "uint8": {kind: typeInt, params: integer(8, 0), width: 1},
		"int16": {kind: typeInt, params: integer(16, 1), width: 2}, "uint16": {kind: typeInt, params: integer(16, 0), width: 2},
		"int32": {kind: typeInt, params: integer(32, 1), width: 4}, "uint32": {kind: typeInt, params: integer(32, 0), width: 4},
		"int64": {kind: typeInt, params: integer(64, 1), width: 8}, "uint64": {kind: typeInt, params: integer(64, 0), width: 8},
		"float16": {kind: typeFloat, params: []value{{2, 0}}, width: 2}, "float": {kind: typeFloat, params: []value{{2, 1}}, width: 4},
		"double": {kind: typeFloat, params: []value{{2, 2}}, width: 8},
		"date32": {kind: typeDate, params: []value{{2, 0}}, width: 4}, "date64": {kind: typeDate, params: []value{{2, 1}}, width: 8},
	}[words]
	return t, ok
}

func integer(bits, signed uint64) []value { return []value{{4, bits}, {1, signed}} }

// bracketed returns the type for a name with parameters in brackets.
func bracketed(name, inner string) (Type, bool) {
	if name == "fixed_size_binary" {
		n, err := strconv.ParseUint(inner, 10, 31)
		return Type{kind: typeFixedSizeBinary, params: []value{{4, n}}, width: int(n)}, err == nil && n > 0
	}
	if unit, ok := map[string]uint64{"year_month": 0, "day_time": 1, "month_day_nano": 2}[inner]; ok && name == "interval" {
		return Type{kind: typeInterval, params: []value{{2, unit}}, width: 4 << unit}, true
	}
	word, zone, zoned := strings.Cut(inner, ", tz=")
	unit, ok := map[string]uint64{"s": 0, "ms": 1, "us": 2, "ns": 3}[word]
	if !ok || zoned != (zone != "") || zoned && name != "timestamp" {
		return Type{}, false
	}
	switch {
	case name == "timestamp":
		return Type{kind: typeTimestamp, params: []value{{2, unit}}, zone: zone, width: 8}, true
	case name == "duration":
		return Type{kind: typeDuration, params: []value{{2, unit}}, width: 8}, true
	case name == "time32" && unit < 2:
		return Type{kind: typeTime, params: []value{{2, unit}, {4, 32}}, width: 4}, true
	case name == "time64" && unit >= 2:
		return Type{kind: typeTime, params: []value{{2, unit}, {4, 64}}, width: 8}, true
	}
	return Type{}, false
}

var decimals = regexp.MustCompile(`^decimal(32|64|128|256)\(([1-9][0-9]?), (-?[0-9]{1,9})\)$`)

// decimal parses a type such as "decimal128(10, 2)".
func decimal(words string) (Type, bool) {
	parts := decimals.FindStringSubmatch(words)
	if parts == nil {
		return Type{}, false
	}
	bits, _ := strconv.Atoi(parts[1])
	precision, _ := strconv.Atoi(parts[2])
	scale, _ := strconv.Atoi(parts[3])
	most := map[int]int{32: 9, 64: 18, 128: 38, 256: 76}[bits]
	params := []value{{4, uint64(precision)}, {4, uint64(uint32(int32(scale)))}, {4, uint64(bits)}}
	return Type{kind: typeDecimal, params: params, width: bits / 8}, precision <= most
}

// Array returns the type of arrays of t with the given shape. ok is false if elements have no fixed
// size, or if an array exceeds Arrow's limit.
func (t Type) Array(shape []uint64) (array Type, ok bool) {
	n := uint64(1)
	dims := make([]string, len(shape))
	for i, dim := range shape {
		if dim == 0 || dim > math.MaxInt32 || t.width == 0 {
			return Type{}, false
		}
		if n *= dim; n*uint64(t.width) > math.MaxInt32 {
			return Type{}, false
		}
		dims[i] = strconv.FormatUint(dim, 10)
	}
	t.extension = Pair{} // tensor elements have only a storage type
	return Type{
		kind: typeFixedSizeList, params: []value{{4, n}}, width: int(n) * t.width, element: &t,
		extension: Pair{"arrow.fixed_shape_tensor", fmt.Sprintf(`{"shape":[%s]}`, strings.Join(dims, ","))},
	}, len(shape) > 0
}

// Width returns the bytes per value, or 0 for variable length.
func (t Type) Width() int { return t.width }

// offsets returns the size of an offset, or 0 if values have no offsets.
func (t Type) offsets() int64 {
	switch t.kind {
	case typeBinary, typeUTF8, typeList, typeMap:
		return 4
	case typeLargeBinary, typeLargeUTF8, typeLargeList:
		return 8
	}
	return 0
}

// size returns the number of values that each value has in each child, also a null: 1 for a struct,
// 0 for lists of any length.
func (t Type) size() int {
	switch t.kind {
	case typeStruct:
		return 1
	case typeFixedSizeList:
		return int(t.params[0].n)
	}
	return 0
}

// views reports whether the values of a column are views of bytes in another buffer.
func (t Type) views() bool { return t.kind == typeBinaryView || t.kind == typeUTF8View }

// stored reports whether a column has a buffer with its values, which are not in its children.
func (t Type) stored() bool {
	switch t.kind {
	case typeNull, typeStruct, typeList, typeLargeList, typeMap, typeFixedSizeList:
		return false
	}
	return true
}
