package costs

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// sample is a sample of a dataset, as the index describes it, with its bytes if they are read.
type sample struct {
	fields map[string]format.Field // declared by the format; other parts are described by their names
	header []string                // names of the columns of a CSV file
	comma  rune
	parts  []chunkindex.Part
	bytes  []byte
}

// value is the value of a field.
type value struct {
	kind string // text, list or whole; otherwise a description: "a float (double)"
	text []byte // a text, or a whole number in decimal digits
	n    uint64 // number of elements of a list, or of bytes of a text
}

// Kinds of values that can be a cost, or have a length.
const (
	text  = "text"
	list  = "a list"
	whole = "a number"
)

// of returns the number of a term.
func (t term) of(x *sample) (uint64, error) {
	at := slices.IndexFunc(x.parts, func(p chunkindex.Part) bool { return p.Ext == t.field })
	if t.use == stored {
		if at < 0 {
			return 0, absent("it has no %s, but %s", t.field, strings.Join(x.names(false), ", "))
		}
		return uint64(x.parts[at].Length), nil
	}
	var v value
	var err error
	if at >= 0 {
		v, err = x.part(x.parts[at])
	} else if v, err = x.inside(t.field); err == nil && v.kind == "" {
		err = absent("it has no %s, but %s", t.field, strings.Join(x.names(true), ", "))
	}
	switch {
	case err != nil:
		return 0, err
	case t.use == length && (v.kind == text || v.kind == list):
		return v.n, nil
	case t.use == number && (v.kind == text || v.kind == whole):
		return parseWhole(string(bytes.TrimSpace(v.text)))
	case t.use == length:
		return 0, fmt.Errorf("%s is %s, which has no length: use %[1]s, bytes(%[1]s) or a file", t.field, v.kind)
	}
	return 0, fmt.Errorf("%s is %s: a cost is a whole number, such as len(%[1]s)", t.field, v.kind)
}

// describe returns the description of a part.
func (x *sample) describe(ext string) format.Field {
	if f, ok := x.fields[ext]; ok {
		return f
	}
	switch last := ext[strings.LastIndexByte(ext, '.')+1:]; last {
	case format.JSON, "npy":
		return format.Field{Encoding: last}
	}
	return format.Field{Encoding: format.Decimal}
}

// content returns the bytes of a part, nil if the sample's bytes are not read.
func (x *sample) content(p chunkindex.Part) []byte {
	if x.bytes == nil {
		return nil
	}
	return x.bytes[p.Offset : p.Offset+p.Length]
}

// names returns the names of the sample's parts, and of fields inside them.
func (x *sample) names(inside bool) (all []string) {
	for _, p := range x.parts {
		all = append(all, p.Ext)
		var object map[string]json.RawMessage
		if inside && x.describe(p.Ext).Encoding == format.JSON && json.Unmarshal(x.content(p), &object) == nil {
			for name := range object {
				all = append(all, p.Ext+"."+name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// part returns the value of a whole part.
func (x *sample) part(p chunkindex.Part) (value, error) {
	f, b := x.describe(p.Ext), x.content(p)
	switch {
	case f.Encoding == format.JSON:
		return jsonValue(b)
	case f.Encoding == format.Raw:
		return rawValue(f, p.Length, b), nil
	case f.Encoding == format.Decimal, f.Encoding == "mds:str_int":
		return value{text, b, uint64(p.Length)}, nil
	case f.Encoding == format.Nested && len(b) >= 4:
		return value{kind: list, n: uint64(binary.LittleEndian.Uint32(b))}, nil
	case f.Shape != nil:
		return value{kind: list, n: f.Shape[0]}, nil
	case f.Encoding == "npy":
		a, err := framing.ReadNPY(b)
		if err != nil || len(a.Shape) == 0 {
			return value{kind: "not an array"}, err
		}
		return value{kind: list, n: a.Shape[0]}, nil
	case strings.HasPrefix(f.Encoding, "mds:ndarray"):
		return mdsArray(strings.Count(f.Encoding, ":"), b), nil
	}
	return value{kind: f.Encoding}, nil
}

// rawValue returns the value of a raw part of n bytes.
func rawValue(f format.Field, n uint32, b []byte) value {
	width, fixed := format.Width(f.Type)
	element, isList := format.Element(f.Type)
	signed := strings.HasPrefix(f.Type, "int")
	switch {
	case f.Shape != nil:
		return value{kind: list, n: f.Shape[0]}
	case isList:
		width, _ = format.Width(element)
		return value{kind: list, n: uint64(n) / uint64(max(1, width))}
	case !fixed || strings.HasPrefix(f.Type, "fixed_size_binary"):
		return value{text, b, uint64(n)}
	case f.Type == "float" || f.Type == "double" || f.Type == "float16":
		return value{kind: "a float (" + f.Type + ")"}
	case len(b) != width || !signed && !strings.HasPrefix(f.Type, "uint"):
		return value{kind: f.Type}
	}
	var wide [8]byte
	copy(wide[:], b)
	v, unused := binary.LittleEndian.Uint64(wide[:]), 64-8*width
	if signed {
		return value{kind: whole, text: strconv.AppendInt(nil, int64(v<<unused)>>unused, 10)}
	}
	return value{kind: whole, text: strconv.AppendUint(nil, v, 10)}
}

// mdsArray returns the value of an array of MosaicML Streaming. Its shape precedes its elements, and
// its type precedes that if the encoding has fewer than two colons.
func mdsArray(colons int, b []byte) value {
	if colons < 2 {
		b = b[min(1, len(b)):]
	}
	var wide [8]byte
	if len(b) == 0 || b[0]>>2 == 0 || copy(wide[:1<<(b[0]&3)], b[1:]) < 1<<(b[0]&3) {
		return value{kind: "not an array"}
	}
	return value{kind: list, n: binary.LittleEndian.Uint64(wide[:])}
}

// inside returns the value of a field of a JSON part, or of a column of a CSV record. Its kind is
// empty if there is none.
func (x *sample) inside(field string) (value, error) {
	for _, p := range x.parts {
		if x.describe(p.Ext).Encoding == format.JSON {
			raw, err := lookUp(x.content(p), strings.TrimPrefix(field, p.Ext+"."))
			if err != nil {
				return value{}, err
			}
			if raw != nil {
				return jsonValue(raw)
			}
		}
	}
	at := slices.Index(x.header, field)
	if at < 0 {
		return value{}, nil
	}
	record, err := x.record(x.content(x.parts[0]))
	if err != nil || at >= len(record) {
		return value{kind: "not in the record"}, err
	}
	return value{text, []byte(record[at]), uint64(len(record[at]))}, nil
}

func (x *sample) record(b []byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.Comma = x.comma
	return r.Read()
}

// lookUp returns a value of a JSON object, nil if there is none. The path is a name, or names of
// nested objects that dots join.
func lookUp(b []byte, path string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	err := json.Unmarshal(b, &object)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if raw, ok := object[path]; ok {
		return raw, nil
	}
	name, rest, _ := strings.Cut(path, ".")
	if raw, ok := object[name]; ok && rest != "" {
		return lookUp(raw, rest)
	}
	return nil, nil
}

func jsonValue(raw []byte) (value, error) {
	var of any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&of); err != nil {
		return value{}, fmt.Errorf("invalid JSON: %w", err)
	}
	switch v := of.(type) {
	case nil:
		return value{}, absent("the value is null")
	case json.Number:
		return value{kind: whole, text: []byte(v)}, nil
	case string:
		return value{text, []byte(v), uint64(len(v))}, nil
	case []any:
		return value{kind: list, n: uint64(len(v))}, nil
	}
	return value{kind: "a JSON object or boolean"}, nil
}
