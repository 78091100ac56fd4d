package format

import (
	"strconv"
	"strings"
)

// Field describes a part, so that clients can decode it.
type Field struct {
	Name     string   `json:"name"`               // the part's extension: "jpg", "image.bytes"; "": the sample itself is the value
	Encoding string   `json:"encoding"`           // encoding of the bytes: Raw, "json", "jpeg", or specific to a format, such as "mds:pil"
	Type     string   `json:"type,omitempty"`     // type of the value, or of an element if Shape is set, in Arrow's notation; "": unknown
	Logical  string   `json:"logical,omitempty"`  // logical type of the value: "int8" of an "int32"; "": same as Type
	Shape    []uint64 `json:"shape,omitempty"`    // shape of an array, whose elements are in C order
	Nullable bool     `json:"nullable,omitempty"` // the part may be missing
	Classes  []string `json:"classes,omitempty"`  // names of an integer's values, from 0; for a list, names of its elements' values
	Children []Field  `json:"children,omitempty"` // for a nested value: the element of a list or the fields of a struct
}

// Encodings used by several formats.
const (
	Raw     = "raw"     // the value itself: little-endian numbers, text, bytes, or the concatenated values of a list
	Nested  = "nested"  // a list, struct or map other than a list of fixed-size values (see docs/spec/rows.md)
	JSON    = "json"    // JSON text
	Decimal = "decimal" // an integer in decimal digits
	JPEG    = "jpeg"    // an image file
	PNG     = "png"     // an image file
	Pickle  = "pickle"  // Python's pickle, which executes code when it is decoded
)

// Typed is a Framing with known part types.
type Typed interface{ Fields() []Field }

// FieldsOf returns the fields of a framing, or nil if they are unknown.
func FieldsOf(f Framing) []Field {
	if t, ok := f.(Typed); ok {
		return t.Fields()
	}
	return nil
}

// Width returns the number of bytes of a raw value of a type. ok is false for variable-size and
// unknown types.
func Width(t string) (bytes int, ok bool) {
	if n, plain := strings.CutPrefix(t, "fixed_size_binary["); plain {
		size, err := strconv.ParseUint(strings.TrimSuffix(n, "]"), 10, 31)
		return int(size), err == nil && strings.HasSuffix(n, "]")
	}
	name := t
	if at := strings.IndexAny(t, "[("); at > 0 {
		name = t[:at]
	}
	bytes, ok = widths()[name]
	return bytes, ok
}

// widths maps fixed-size types, by name without parameters, to their size.
func widths() map[string]int {
	return map[string]int{
		"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
		"float16": 2, "float": 4, "double": 8, "date32": 4, "date64": 8, "time32": 4, "time64": 8, "timestamp": 8, "duration": 8,
		"decimal32": 4, "decimal64": 8, "decimal128": 16, "decimal256": 32,
	}
}

// Element returns the type of a list's elements: "float" for "list<float>".
func Element(list string) (t string, ok bool) {
	t, ok = strings.CutPrefix(list, "list<")
	if !ok || !strings.HasSuffix(t, ">") {
		return "", false
	}
	return t[:len(t)-1], true
}

// NumberType returns Arrow's name of a NumPy number type: "float" for "float32". ok is false if
// Arrow has no such type.
func NumberType(numpy string) (t string, ok bool) {
	switch numpy {
	case "float32":
		return "float", true
	case "float64":
		return "double", true
	case "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16":
		return numpy, true
	}
	return "", false
}
