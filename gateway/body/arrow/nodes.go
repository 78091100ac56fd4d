package arrow

import (
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// typeOf returns the type of a node in Arrow, which is pyarrow's for the column of a file. convert
// is nil if the bytes are the same.
func typeOf(n *rows.Node, parquet bool) (t Type, convert func(dst, value []byte) []byte) {
	switch {
	case n.AlwaysNull():
		return Type{kind: typeNull}, nil
	case n.Kind == rows.Struct:
		return Type{kind: typeStruct}, nil
	case n.Kind == rows.List && n.Type == "map":
		return Type{kind: typeMap}, nil
	case n.Kind == rows.List:
		return Type{kind: typeList}, nil
	case n.Type == "bool":
		return Bool(), func(dst, value []byte) []byte { return append(dst, value[0]) }
	}
	if t, convert = logicalOf(n, parquet); convert != nil {
		return t, convert
	}
	t, ok := ParseType(n.Type)
	switch {
	case !ok && n.Kind == rows.Fixed:
		t, _ = ParseType("fixed_size_binary[" + strconv.Itoa(n.Size) + "]")
	case !ok || n.Logical == "enum":
		t = Bytes()
	case n.Logical == "uuid" || n.Logical == "json":
		t.extension = Pair{"arrow." + n.Logical, ""}
	}
	return t, nil
}

// logicalOf returns the type of a Parquet column whose bytes differ in Arrow.
func logicalOf(n *rows.Node, parquet bool) (Type, func(dst, value []byte) []byte) {
	kind, rest, _ := strings.Cut(n.Type, "(")
	if kind == "decimal32" || kind == "decimal64" {
		t, ok := ParseType("decimal128(" + rest)
		if !ok || !parquet {
			return t, nil
		}
		return t, littleEndian(16, false)
	}
	t, ok := ParseType(n.Logical)
	switch {
	case !ok:
	case n.Size == 12 && n.Logical == "timestamp[ns]":
		return t, int96
	case t.kind == typeDecimal:
		return t, littleEndian(t.width, true)
	case t.kind == typeInt && n.Kind == rows.Fixed && t.width < n.Size:
		return t, littleEndian(t.width, false)
	}
	return t, nil
}
