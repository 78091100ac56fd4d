package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// maxDims is how many dimensions a record can have: NumPy's own limit was 32 before version 2, and a batch has one more.
const maxDims = 31

// Layout says how the bytes of a sample are an array.
type Layout struct {
	dtype DType
	shape []uint64
	size  int64
}

// NewLayout checks that a sample of this type and shape has a byte, and no more than a sample can have.
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
		return Layout{}, fmt.Errorf("a record of %d bytes: want 1 to %d", size, format.MaxSample)
	}
	return Layout{dtype: dtype, shape: append([]uint64{}, shape...), size: int64(size)}, nil
}

// Size is the bytes of a sample.
func (l Layout) Size() int64 { return l.size }

// Equal reports whether two layouts are the same.
func (l Layout) Equal(o Layout) bool { return l.dtype == o.dtype && slices.Equal(l.shape, o.shape) }

// String is for messages: "<f4 [3 32 32]".
func (l Layout) String() string { return fmt.Sprintf("%s %d", l.dtype, l.shape) }

// constants are a layout as an index keeps it, and the parts of a record that has several.
type constants struct {
	DType string         `json:"dtype"`
	Shape []uint64       `json:"shape"`
	Parts []format.Field `json:"parts,omitempty"`
}

// Constants returns the layout as an index keeps it. Parts are those of a record that has several.
func (l Layout) Constants(parts ...format.Field) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // "<u2" stays as NumPy writes it
	if err := e.Encode(constants{l.dtype.name, l.shape, parts}); err != nil {
		panic(err) // strings and numbers
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// NewFraming reads what Constants wrote, and nothing else.
func NewFraming(raw json.RawMessage) (Framing, error) {
	f, err := parseConstants(raw)
	if err != nil {
		return Framing{}, fmt.Errorf("constants of an array: %w", err)
	}
	return f, nil
}

func parseConstants(raw json.RawMessage) (Framing, error) {
	var c constants
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Framing{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Framing{}, errors.New("something follows them")
	}
	dtype, err := ParseDType(c.DType)
	if err != nil {
		return Framing{}, err
	}
	l, err := NewLayout(dtype, c.Shape)
	if err != nil {
		return Framing{}, err
	}
	return Framing{l, c.Parts}, l.checkParts(c.Parts)
}

// Framing is that of batches that are flat arrays: nothing is before or after the samples.
type Framing struct {
	Layout
	parts []format.Field // of a record that has several; nil: the record is one array
}

// ContentType of a batch.
func (Framing) ContentType() string { return "application/octet-stream" }

// Frame returns nothing. It fails for a sample of another size than the layout's.
func (f Framing) Frame(lengths []uint32) (before, after []byte, err error) {
	for i, n := range lengths {
		if int64(n) != f.size {
			return nil, nil, fmt.Errorf("sample %d has %d bytes, not the %d of %v", i, n, f.size, f.Layout)
		}
	}
	return nil, nil, nil
}

// Item implements format.Array.
func (f Framing) Item() (dtype string, shape []uint64) { return f.dtype.name, slices.Clone(f.shape) }
