package records

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Fields implements format.Typed: the sample is one array, unless the constants name its parts. Indexes of CIFAR made before constants
// named any are silent about a label, and look like one array of its size: nothing is said of these.
func (f Framing) Fields() []format.Field {
	if f.parts != nil {
		return slices.Clone(f.parts)
	}
	for _, c := range cifars() {
		if f.dtype.name == "|u1" && slices.Equal(f.shape, []uint64{uint64(c.size())}) {
			return nil
		}
	}
	return []format.Field{f.Field(Part)}
}

// Field says that a part is the array of the layout.
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

// arrow returns Arrow's word for a number in little-endian order; "" where it has none.
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

// fields says what the parts of a record of CIFAR hold.
func (c cifar) fields() []format.Field {
	var all []format.Field
	for _, l := range c.labels {
		all = append(all, format.Field{Name: l.part, Encoding: format.Raw, Type: "uint8"})
	}
	return append(all, format.Field{Name: Part, Encoding: format.Raw, Type: "uint8", Shape: []uint64{3, 32, 32}})
}

// checkParts holds parts that an index names to the record that they are parts of, all of it.
func (l Layout) checkParts(parts []format.Field) error {
	sum := uint64(0)
	names := map[string]bool{}
	for _, p := range parts {
		width, ok := format.Width(p.Type)
		if p.Name == "" || names[p.Name] || p.Encoding != format.Raw || !ok {
			return fmt.Errorf("part %.100q of a record: its name, encoding or type cannot be right", p.Name)
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
		return errors.New("parts are shorter than their record")
	}
	return nil
}
