package mds

import (
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Fields implements format.Typed: one field a column.
func (f framing) Fields() []format.Field { return slices.Clone(f.fields) }

// types says what every column holds.
func (c columns) types() []format.Field {
	all := make([]format.Field, len(c.Names))
	for i, name := range c.Names {
		all[i] = column(c.Encodings[i], c.Sizes[i])
		all[i].Name = name
	}
	return all
}

// column says what an encoding of MosaicML Streaming makes of a value. What has the bytes that Arrow has for it, and JSON and images, are
// called as everywhere; the others, and those that a user has added, are Streaming's own.
func column(encoding string, size *int64) format.Field {
	own := format.Field{Encoding: Name + ":" + encoding}
	plain := format.Field{Encoding: format.Raw}
	switch encoding {
	case "bytes":
		plain.Type = "binary"
		return plain
	case "str":
		plain.Type = "utf8"
		return plain
	case "json":
		return format.Field{Encoding: format.JSON}
	case "jpeg":
		return format.Field{Encoding: format.JPEG}
	case "png":
		return format.Field{Encoding: format.PNG}
	case "pkl":
		return format.Field{Encoding: format.Pickle}
	}
	number := encoding
	if encoding == "int" {
		number = "int64"
	}
	if array, ok := strings.CutPrefix(encoding, "ndarray:"); ok {
		var dims string
		number, dims, _ = strings.Cut(array, ":")
		if plain.Shape = shape(dims); plain.Shape == nil {
			return own
		}
	}
	var ok bool
	if plain.Type, ok = format.NumberType(number); !ok || number == "bool" || size == nil || bytesOf(plain) != *size {
		return own // Streaming has no bool: one that a user has added may have any bytes
	}
	return plain
}

// shape reads dimensions as Streaming writes them: "3,224,224". nil: they are none.
func shape(dims string) []uint64 {
	var all []uint64
	for dim := range strings.SplitSeq(dims, ",") {
		n, err := strconv.ParseUint(dim, 10, 32)
		if err != nil || n == 0 {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// bytesOf is the size of a value; -1 is that of one that is larger than a sample can be.
func bytesOf(f format.Field) int64 {
	width, _ := format.Width(f.Type)
	n := int64(width)
	for _, dim := range f.Shape {
		if n *= int64(dim); n > format.MaxSample {
			return -1
		}
	}
	return n
}
