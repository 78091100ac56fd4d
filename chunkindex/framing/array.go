package framing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// ArrayPart is the extension of a sample's array.
const ArrayPart = "bin"

// maxDims is the largest number of dimensions of a record. NumPy's own limit was 32 before version
// 2, and a batch has one more than a record.
const maxDims = 31

// Layout is the type and shape of the array that a sample holds.
type Layout struct {
	dtype DType
	shape []uint64
	size  int64
}

// NewLayout returns the layout of samples of this type and shape. It returns an error if such a
// sample is empty or longer than the limit.
func NewLayout(dtype DType, shape []uint64) (Layout, error) {
	if len(shape) > maxDims {
		return Layout{}, fmt.Errorf("a record has %d dimensions, more than %d", len(shape), maxDims)
	}
	size := dtype.Size()
	for _, n := range shape {
		if n == 0 {
			return Layout{}, errors.New("a record has no bytes")
		}
		if size > format.MaxSample/n {
			return Layout{}, fmt.Errorf("a record is longer than %d bytes", format.MaxSample)
		}
		size *= n
	}
	if size == 0 || size > format.MaxSample {
		return Layout{}, fmt.Errorf("a record has %d bytes: must be from 1 to %d", size, format.MaxSample)
	}
	return Layout{dtype: dtype, shape: append([]uint64{}, shape...), size: int64(size)}, nil
}

// Size returns the number of bytes of a sample.
func (l Layout) Size() int64 { return l.size }

// Equal reports whether two layouts are the same.
func (l Layout) Equal(o Layout) bool { return l.dtype == o.dtype && slices.Equal(l.shape, o.shape) }

// String returns the layout as text for messages: "<f4 [3 32 32]".
func (l Layout) String() string { return fmt.Sprintf("%s %d", l.dtype, l.shape) }

// arrayConstants is the form in which an index stores a layout. Parts is set only for a record with
// several parts.
type arrayConstants struct {
	DType string         `json:"dtype"`
	Shape []uint64       `json:"shape"`
	Parts []format.Field `json:"parts,omitempty"`
}

// Constants returns the layout in the form that an index stores. parts lists the parts of a record
// that has several.
func (l Layout) Constants(parts ...format.Field) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // keep "<u2" as NumPy writes it
	if err := e.Encode(arrayConstants{l.dtype.name, l.shape, parts}); err != nil {
		panic(err) // impossible: the value holds only strings and numbers
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// readArray parses the output of Constants and rejects all other input.
func readArray(raw json.RawMessage) (format.Framing, error) {
	f, err := parseArray(raw)
	if err != nil {
		return nil, fmt.Errorf("description of an array: %w", err)
	}
	return f, nil
}

func parseArray(raw json.RawMessage) (array, error) {
	var c arrayConstants
	if err := strict(raw, &c); err != nil {
		return array{}, err
	}
	dtype, err := ParseDType(c.DType)
	if err != nil {
		return array{}, err
	}
	l, err := NewLayout(dtype, c.Shape)
	if err != nil {
		return array{}, err
	}
	return array{l, c.Parts}, l.checkParts(c.Parts)
}

// array is the framing of batches that are flat arrays, with no bytes before or after the samples.
type array struct {
	Layout
	parts []format.Field // parts of the record; nil: the record is one array
}

// ContentType returns the media type of a batch.
func (array) ContentType() string { return "application/octet-stream" }

// Frame returns no bytes. It fails for a sample whose size differs from the layout's size.
func (f array) Frame(lengths []uint32) (before, after []byte, err error) {
	for i, n := range lengths {
		if int64(n) != f.size {
			return nil, nil, fmt.Errorf("sample %d has %d bytes, but %[4]v requires %[3]d", i, n, f.size, f.Layout)
		}
	}
	return nil, nil, nil
}

// Item implements format.Array.
func (f array) Item() (dtype string, shape []uint64) { return f.dtype.name, slices.Clone(f.shape) }

// Fields implements format.Typed. The sample is one array unless the constants list its parts.
func (f array) Fields() []format.Field {
	if f.parts != nil {
		return slices.Clone(f.parts)
	}
	return []format.Field{f.Field(ArrayPart)}
}

// Field returns the field of a part that contains the layout's array.
func (l Layout) Field(name string) format.Field {
	f := format.Field{Name: name, Encoding: format.Raw, Shape: slices.Clone(l.shape)}
	if len(l.shape) == 0 {
		f.Shape = nil
	}
	if f.Type = l.dtype.arrow(); f.Type == "" {
		f.Encoding = "numpy:" + l.dtype.name
	}
	return f
}

// arrow returns Arrow's name of a little-endian number type, or "" if Arrow has no such type.
func (d DType) arrow() string {
	kinds := map[byte]string{'b': "bool", 'i': "int", 'u': "uint", 'f': "float"}
	kind := kinds[d.name[1]]
	if kind == "" || d.name[0] == '>' {
		return ""
	}
	if kind != "bool" {
		kind += strconv.FormatUint(8*d.size, 10)
	}
	t, _ := format.NumberType(kind)
	return t
}

// checkParts returns an error if the parts do not fill their record exactly.
func (l Layout) checkParts(parts []format.Field) error {
	sum := uint64(0)
	names := map[string]bool{}
	for _, p := range parts {
		width, ok := format.Width(p.Type)
		if p.Name == "" || names[p.Name] || p.Encoding != format.Raw || !ok {
			return fmt.Errorf("part %.100q of a record: its name, encoding or type is invalid", p.Name)
		}
		names[p.Name] = true
		n := uint64(width)
		for _, dim := range p.Shape {
			if dim == 0 || n > uint64(l.size)/dim {
				return errors.New("parts are longer than their record")
			}
			n *= dim
		}
		if sum += n; sum > uint64(l.size) {
			return errors.New("parts are longer than their record")
		}
	}
	if parts != nil && sum != uint64(l.size) {
		return errors.New("the parts do not cover their record")
	}
	return nil
}
