package framing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// readMDS parses the constants of a dataset, its columns, and returns a framing that combines
// samples into an MDS shard.
func readMDS(constants json.RawMessage) (format.Framing, error) {
	c, err := parseMDS(constants)
	if err != nil {
		return nil, err
	}
	return mdsFraming{header: []byte("{" + c.members("") + "}"), fields: c.types()}, nil
}

func parseMDS(constants json.RawMessage) (MDSColumns, error) {
	var c MDSColumns
	if constants == nil {
		return c, errors.New("mds: description of the columns is missing")
	}
	if err := strict(constants, &c); err != nil {
		return c, fmt.Errorf("mds: description of the columns: %w", err)
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("mds: description of the columns: %w", err)
	}
	return c, nil
}

// MDSColumns holds the names, encodings and sizes of a dataset's columns. Each of the three slices
// has one entry per column.
type MDSColumns struct {
	Encodings []string `json:"column_encodings"`
	Names     []string `json:"column_names"`
	Sizes     []*int64 `json:"column_sizes"` // nil: the size differs between samples
}

// Check returns an error for columns that the writer or the reader does not support.
func (c MDSColumns) Check() error {
	n := len(c.Names)
	if n == 0 || n > format.MaxParts || len(c.Encodings) != n || len(c.Sizes) != n {
		return fmt.Errorf("%d columns with %d encodings and %d sizes", n, len(c.Encodings), len(c.Sizes))
	}
	if !slices.IsSorted(c.Names) || len(slices.Compact(slices.Clone(c.Names))) != n {
		return errors.New("columns are not sorted by their names, or two have the same name")
	}
	for i, name := range c.Names {
		if len(name) > format.MaxKey {
			return fmt.Errorf("column name of %d bytes is longer than %d", len(name), format.MaxKey)
		}
		if size := c.Sizes[i]; size != nil && (*size <= 0 || *size > format.MaxSample) {
			return fmt.Errorf("column %.200q cannot have a size of %d bytes", name, *size)
		}
	}
	return nil
}

// Equal reports whether both have the same names, encodings and sizes.
func (c MDSColumns) Equal(o MDSColumns) bool {
	size := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	return slices.Equal(c.Names, o.Names) && slices.Equal(c.Encodings, o.Encodings) && slices.EqualFunc(c.Sizes, o.Sizes, size)
}

// mdsFraming has the header of a shard, byte-identical to the header that MDSWriter writes without
// compression, hashes or a size limit.
type mdsFraming struct {
	header []byte
	fields []format.Field
}

// ContentType returns the media type of a batch.
func (mdsFraming) ContentType() string { return "application/vnd.mosaicml.mds" }

// Frame returns the offset table and the shard's header, which precede the samples. Nothing follows
// them.
func (f mdsFraming) Frame(lengths []uint32) (before, after []byte, err error) {
	before, err = OffsetTable(f.header, lengths)
	return before, nil, err
}

// members returns the JSON members that MDSWriter writes for a shard, sorted by name. It inserts
// extra at its position in that order.
func (c MDSColumns) members(extra string) string {
	var encodings, names, sizes []string
	for i, size := range c.Sizes {
		encodings, names, sizes = append(encodings, quote(c.Encodings[i])), append(names, quote(c.Names[i])), append(sizes, "null")
		if size != nil {
			sizes[i] = strconv.FormatInt(*size, 10)
		}
	}
	return fmt.Sprintf(`"column_encodings": %s, "column_names": %s, "column_sizes": %s, "compression": null, "format": "mds", "hashes": [], %s"size_limit": null, "version": 2`,
		list(encodings), list(names), list(sizes), extra)
}

// list returns a list of JSON values.
func list(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// quote writes a string as Python's json module does: every character that is not printable ASCII
// is escaped.
func quote(s string) string {
	b := []byte{'"'}
	for _, r := range s {
		switch i := strings.IndexRune("\"\\\n\r\t\b\f", r); {
		case i >= 0:
			b = append(b, '\\', `"\nrtbf`[i])
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, `\u%04x`, u)
			}
		}
	}
	return string(append(b, '"'))
}

// MDSBatch describes a batch that is served as a shard of a virtual MDS dataset.
type MDSBatch struct {
	Name    string // name of the shard in requests: "shard.00000.mds"
	Samples int
	Bytes   int64 // length of the shard, including framing
}

// MDSIndex returns the index.json of an MDS dataset whose shards are batches, as MDSWriter writes
// it. constants are the constants of the dataset's framing.
func MDSIndex(constants json.RawMessage, batches []MDSBatch) ([]byte, error) {
	c, err := parseMDS(constants)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"shards": [`)
	for i, batch := range batches {
		if i > 0 {
			b = append(b, ", "...)
		}
		raw := fmt.Sprintf(`"raw_data": {"basename": %s, "bytes": %d, "hashes": {}}, "samples": %d, `, quote(batch.Name), batch.Bytes, batch.Samples)
		b = fmt.Appendf(b, `{%s, "zip_data": null}`, c.members(raw))
	}
	return append(b, `], "version": 2}`...), nil
}

// Fields implements format.Typed: one field for each column.
func (f mdsFraming) Fields() []format.Field { return slices.Clone(f.fields) }

// types returns the field of every column.
func (c MDSColumns) types() []format.Field {
	all := make([]format.Field, len(c.Names))
	for i, name := range c.Names {
		all[i] = mdsField(c.Encodings[i], c.Sizes[i])
		all[i].Name = name
	}
	return all
}

// mdsField returns the field of the values in a MosaicML Streaming encoding. Values with the byte
// layout of an Arrow type, JSON, images and pickles have common encodings. All other values,
// including those in a user's own encodings, keep Streaming's names.
func mdsField(encoding string, size *int64) format.Field {
	own := format.Field{Encoding: MDS + ":" + encoding}
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
		if plain.Shape = mdsShape(dims); plain.Shape == nil {
			return own
		}
	}
	var ok bool
	if plain.Type, ok = format.NumberType(number); !ok || number == "bool" || size == nil || bytesOf(plain) != *size {
		return own // Streaming has no bool, so a user's own bool encoding may write any bytes
	}
	return plain
}

// mdsShape parses dimensions as Streaming writes them: "3,224,224". It returns nil for invalid
// ones.
func mdsShape(dims string) []uint64 {
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

// bytesOf returns the size of a value, or -1 if the value is larger than the limit for a sample.
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
