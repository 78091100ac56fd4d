package arrow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// typeOf returns the type of a node in Arrow, which is pyarrow's for the column of a file.
func typeOf(n *rows.Node) Type {
	words := n.ArrowType()
	t := storage(words, n)
	if rest, ok := strings.CutPrefix(words, "dictionary<"); ok {
		index, words, _ := strings.Cut(strings.TrimSuffix(rest, ">"), ", ")
		values := storage(words, n)
		t, _ = ParseType(index)
		t.values = &values
	}
	switch {
	case len(n.Extension) == 2:
		t.extension = Pair{n.Extension[0], n.Extension[1]}
	case n.Logical == "uuid" || n.Logical == "json":
		t.extension = Pair{"arrow." + n.Logical, ""}
	}
	return t
}

// storage returns the type with a name. Without such a type it is that of the node's bytes.
func storage(words string, n *rows.Node) Type {
	name, inner, _ := strings.Cut(words, "[")
	switch name {
	case "null":
		return Type{kind: typeNull}
	case "bool":
		return Bool()
	case "struct":
		return Type{kind: typeStruct}
	case "list":
		return Type{kind: typeList}
	case "large_list":
		return Type{kind: typeLargeList}
	case "map":
		sorted := uint64(strings.Count(inner, "keys_sorted"))
		return Type{kind: typeMap, params: []value{{1, sorted}}}
	case "fixed_size_list":
		size, _ := strconv.ParseUint(strings.TrimSuffix(inner, "]"), 10, 31)
		return Type{kind: typeFixedSizeList, params: []value{{4, size}}}
	case "large_binary":
		return Type{kind: typeLargeBinary}
	case "large_utf8":
		return Type{kind: typeLargeUTF8}
	case "binary_view":
		return Type{kind: typeBinaryView, width: viewSize}
	case "utf8_view":
		return Type{kind: typeUTF8View, width: viewSize}
	}
	t, ok := ParseType(words)
	switch {
	case !ok && n.Kind == rows.Fixed:
		t, _ = ParseType(fmt.Sprintf("fixed_size_binary[%d]", n.Size))
	case !ok:
		t = Bytes()
	}
	return t
}

// conversion returns the function that appends a value of a node in Arrow. It is nil if the bytes
// are the same.
func conversion(n *rows.Node, t Type) func(dst, value []byte) []byte {
	switch {
	case t.kind == typeDecimal && !strings.HasPrefix(n.Type, "decimal"):
		return littleEndian(t.width, true)
	case n.Kind == rows.Fixed && (t.kind == typeDecimal || t.kind == typeInt) && t.width != n.Size:
		return littleEndian(t.width, false)
	case t.kind == typeTimestamp && n.Size == 12:
		return int96
	}
	return nil
}

// Stored reports whether the bytes of a node's values are those of Arrow, or a list of such values.
func Stored(n *rows.Node) bool {
	t := typeOf(n)
	if n.Flat() {
		n = n.Children[0]
		t = typeOf(n)
	}
	return len(n.Children) == 0 && t.values == nil && !t.views() && !slices.Contains([]uint64{typeNull, typeBool}, t.kind) && conversion(n, t) == nil
}
