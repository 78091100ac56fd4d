package format

import (
	"strconv"
	"strings"
)

// Field says what a part holds, so that clients decode it without being told.
type Field struct {
	Name     string   `json:"name"`               // the part's extension: "jpg", "image.bytes"; "" where the sample itself is the value
	Encoding string   `json:"encoding"`           // how the bytes are written: Raw, "json", "jpeg", or a format's own way, such as "mds:pil"
	Type     string   `json:"type,omitempty"`     // of the value, in Arrow's words; with a shape, of an element; "": not known
	Logical  string   `json:"logical,omitempty"`  // what the file says that a value of Type stands for: "int8" of an "int32"; "": no other type
	Shape    []uint64 `json:"shape,omitempty"`    // of an array, whose elements are in C order
	Nullable bool     `json:"nullable,omitempty"` // the part may be missing
	Classes  []string `json:"classes,omitempty"`  // names of an integer's values, from 0; of a list those of its elements' values
	Children []Field  `json:"children,omitempty"` // of a nested value: what it holds, the one element of a list or the fields of a struct
}

// Encodings that several formats share.
const (
	Raw     = "raw"     // the value of Type itself: numbers in little-endian order, text, bytes, the values of a list one after another
	Nested  = "nested"  // a list, struct or map that is no list of values of one size, as docs/spec/rows.md has it
	JSON    = "json"    // a JSON text
	Decimal = "decimal" // an integer in decimal digits
	JPEG    = "jpeg"    // an image file
	PNG     = "png"     // an image file
	Pickle  = "pickle"  // of Python, which runs code when it is read
)

// Typed is a Framing that knows the types of its parts.
type Typed interface{ Fields() []Field }

// FieldsOf returns the fields of a framing, nil where nothing is known.
func FieldsOf(f Framing) []Field {
	if t, ok := f.(Typed); ok {
		return t.Fields()
	}
	return nil
}

// Width returns how many bytes a raw value of a type has. ok is false where each value has a length of its own, and for a type that
// is not known.
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

// widths are those of types of one size, by their words without what stands in brackets.
func widths() map[string]int {
	return map[string]int{
		"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
		"float16": 2, "float": 4, "double": 8, "date32": 4, "date64": 8, "time32": 4, "time64": 8, "timestamp": 8, "duration": 8,
		"decimal32": 4, "decimal64": 8, "decimal128": 16, "decimal256": 32,
	}
}

// Element returns the type of the values of a list: "float" of "list<float>".
func Element(list string) (t string, ok bool) {
	t, ok = strings.CutPrefix(list, "list<")
	if !ok || !strings.HasSuffix(t, ">") {
		return "", false
	}
	return t[:len(t)-1], true
}

// NumberType returns Arrow's word for a number as NumPy calls it: "float" of "float32". ok is false for one that Arrow has none for.
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
