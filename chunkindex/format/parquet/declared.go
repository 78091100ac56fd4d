package parquet

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// declare sets the types of Arrow that the writer of a file declares, like pyarrow does. encoded is
// the writer's schema in base64. A schema that cannot be parsed changes nothing.
func declare(fields []*rows.Node, encoded string) {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || encoded == "" {
		return
	}
	if declared, err := arrowbatch.DeclaredFields(b); err == nil {
		declareFields(fields, declared)
	}
}

// declareFields sets the types of fields that have the same name in the writer's schema.
func declareFields(fields, declared []*rows.Node) {
	byName := make(map[string]*rows.Node, len(declared))
	for _, o := range declared {
		byName[o.Name] = o
	}
	for _, n := range fields {
		if o := byName[n.Name]; o != nil {
			declareNode(n, o)
		}
	}
}

// declareNode sets the type of a node, unless the writer's type o has no such values. pyarrow does
// not set the types inside maps.
func declareNode(n, o *rows.Node) {
	switch {
	case n.Type != o.Type || n.Type != "list" && n.Type != "struct":
		n.Arrow = declaredType(n.ArrowType(), o.ArrowType())
	case n.Kind == rows.List:
		declareNode(n.Children[0], o.Children[0])
		n.Arrow = o.Arrow
	default:
		declareFields(n.Children, o.Children)
	}
	if o.Extension != nil && sameStorage(n, o) {
		n.Extension = o.Extension
	}
}

// declaredType returns the type of a column whose values have the type own without the writer's
// schema, or "" if that schema does not change it.
func declaredType(own, declared string) string {
	kind, rest, _ := strings.Cut(declared, "(")
	index, _, coded := strings.Cut(declared, ", ")
	_, zone, zoned := strings.Cut(declared, ", tz=")
	bytes := own == "utf8" || own == "binary"
	utc, isUTC := strings.CutSuffix(own, "UTC]")
	switch {
	case bytes && (declared == "large_"+own || declared == own+"_view"),
		own == "int64" && strings.HasPrefix(declared, "duration["),
		own == "decimal128("+rest && strings.HasPrefix(kind, "decimal") && declared != own:
		return declared
	case bytes && coded && strings.HasPrefix(index, "dictionary<"):
		return index + ", " + own + ">"
	case isUTC && zoned && strings.HasPrefix(declared, "timestamp["):
		return utc + zone
	}
	return ""
}

// sameStorage reports whether a node has the type of the writer's schema.
func sameStorage(n, o *rows.Node) bool {
	return n.ArrowType() == o.ArrowType() && slices.EqualFunc(n.Children, o.Children, sameStorage)
}
