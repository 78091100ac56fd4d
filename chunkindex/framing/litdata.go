package framing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Fields implements format.Typed: one field for each leaf.
func (f litdataFraming) Fields() []format.Field { return slices.Clone(f.fields) }

// types returns the field of every leaf, determined by the name of the leaf's serializer.
func (c LitDataConstants) types() []format.Field {
	all := make([]format.Field, len(c.DataFormat))
	for i, serializer := range c.DataFormat {
		all[i] = leaf(serializer)
		if element, ok := format.Element(all[i].Type); ok && c.BlockSize > 0 {
			all[i].Type, all[i].Shape = element, []uint64{uint64(c.BlockSize)}
		}
		all[i].Name = strconv.Itoa(i)
	}
	return all
}

// leaf returns the field of the values that a LitData serializer writes. Values with the byte
// layout of an Arrow type, images and pickles have common encodings. All other values, including
// those of a user's own serializers, have LitData's own encodings.
func leaf(serializer string) format.Field {
	name, detail, _ := strings.Cut(serializer, ":")
	raw := map[string]string{"str": "utf8", "bytes": "binary", "bool": "bool", "int": "int64", "float": "double"}
	if t := raw[serializer]; t != "" {
		return format.Field{Encoding: format.Raw, Type: t}
	}
	switch serializer {
	case "jpeg":
		return format.Field{Encoding: format.JPEG}
	case "pickle":
		return format.Field{Encoding: format.Pickle}
	}
	n, err := strconv.Atoi(detail)
	if t := elements(name)[n]; t != "" && err == nil {
		return format.Field{Encoding: format.Raw, Type: "list<" + t + ">"}
	}
	return format.Field{Encoding: LitData + ":" + serializer}
}

// elements returns element types by their numbers in LitData's constants.py, for serializers that
// write only the elements of a one-dimensional array. It omits complex numbers, bfloat16 and types
// without a fixed size.
func elements(serializer string) map[int]string {
	switch serializer {
	case "no_header_numpy":
		return map[int]string{
			0: "int8", 1: "int16", 2: "int32", 3: "int64", 4: "uint8", 5: "uint16", 6: "uint32", 7: "uint64", 8: "float16", 9: "float", 10: "double", 13: "bool",
		}
	case "no_header_tensor":
		return map[int]string{
			0: "float", 1: "float", 2: "double", 3: "double", 8: "float16", 9: "float16", 11: "uint8", 12: "int8", 13: "int16", 14: "int16", 15: "int32", 16: "int32",
			17: "int64", 18: "int64", 19: "bool",
		}
	}
	return nil
}

// LitDataConstants holds the constants of a dataset: the layout of its samples, which batches do
// not contain.
type LitDataConstants struct {
	DataFormat []string `json:"data_format"`
	DataSpec   string   `json:"data_spec"`
	BlockSize  int64    `json:"block_size,omitempty"` // number of tokens in a sample
}

// readLitData checks the constants of a dataset and returns a framing that combines samples into a
// LitData chunk.
func readLitData(raw json.RawMessage) (format.Framing, error) {
	if raw == nil {
		return nil, errors.New("litdata: description of the shards is missing")
	}
	var c LitDataConstants
	if err := strict(raw, &c); err != nil {
		return nil, fmt.Errorf("litdata: description of the shards: %w", err)
	}
	if len(c.DataFormat) == 0 || len(c.DataFormat) > format.MaxParts || c.BlockSize < 0 {
		return nil, fmt.Errorf("litdata: description of the shards: %d leaves, blocks of %d", len(c.DataFormat), c.BlockSize)
	}
	return litdataFraming{c.types()}, nil
}

type litdataFraming struct{ fields []format.Field }

// ContentType returns the media type of a batch.
func (litdataFraming) ContentType() string { return "application/vnd.litdata.chunk" }

// Frame returns the offset table, which precedes the samples. Nothing follows them.
func (litdataFraming) Frame(lengths []uint32) (before, after []byte, err error) {
	before, err = OffsetTable(nil, lengths)
	return before, nil, err
}
