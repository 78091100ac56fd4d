package mds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
)

// readFraming reads the constants of a dataset, its columns, and turns samples of its shards into an MDS shard.
func readFraming(constants json.RawMessage) (format.Framing, error) {
	c, err := parse(constants)
	if err != nil {
		return nil, err
	}
	return framing{header: c.config(), fields: c.types()}, nil
}

func parse(constants json.RawMessage) (columns, error) {
	var c columns
	if constants == nil {
		return c, errors.New("mds has no constants")
	}
	d := json.NewDecoder(bytes.NewReader(constants))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("mds constants: %w", err)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("mds constants: %w", err)
	}
	return c, nil
}

type framing struct {
	header []byte
	fields []format.Field
}

// ContentType of a batch.
func (framing) ContentType() string { return "application/vnd.mosaicml.mds" }

// Frame returns the offsets of the samples and the shard's header. Nothing follows the samples.
func (f framing) Frame(lengths []uint32) (before, after []byte, err error) {
	before, err = offsets.Table(f.header, lengths)
	return before, nil, err
}

// config is the header of a shard, byte by byte as MDSWriter writes it without compression, hashes and size limit.
func (c columns) config() []byte { return append(c.members([]byte{'{'}, ""), '}') }

// members writes what MDSWriter says of a shard, in its order: that of the names, into which extra is put.
func (c columns) members(b []byte, extra string) []byte {
	list := func(b []byte, name string, one func(b []byte, i int) []byte) []byte {
		b = append(append(b, '"'), name...)
		b = append(b, `": [`...)
		for i := range c.Names {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = one(b, i)
		}
		return append(b, "], "...)
	}
	b = list(b, "column_encodings", func(b []byte, i int) []byte { return quote(b, c.Encodings[i]) })
	b = list(b, "column_names", func(b []byte, i int) []byte { return quote(b, c.Names[i]) })
	b = list(b, "column_sizes", func(b []byte, i int) []byte {
		if c.Sizes[i] == nil {
			return append(b, "null"...)
		}
		return strconv.AppendInt(b, *c.Sizes[i], 10)
	})
	b = append(b, `"compression": null, "format": "mds", "hashes": [], `...)
	return append(append(b, extra...), `"size_limit": null, "version": 2`...)
}

// quote writes a string as Python's json module does: all that is not printable ASCII as escapes.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, `\u%04x`, u)
			}
		}
	}
	return append(b, '"')
}

// BatchInfo is a batch of a dataset, as the shard of a virtual one.
type BatchInfo struct {
	Name    string // of the shard, as it is asked for: "shard.00000.mds"
	Samples int
	Bytes   int64 // of the shard, with what is around the samples
}

// Index returns the index.json of an MDS dataset whose shards are batches, as MDSWriter writes it. constants are those of
// the dataset's framing.
func Index(constants json.RawMessage, batches []BatchInfo) ([]byte, error) {
	c, err := parse(constants)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"shards": [`)
	for i, batch := range batches {
		if i > 0 {
			b = append(b, ", "...)
		}
		raw := fmt.Appendf(nil, `"raw_data": {"basename": %s, "bytes": %d, "hashes": {}}, "samples": %d, `, quote(nil, batch.Name), batch.Bytes, batch.Samples)
		b = append(c.members(append(b, '{'), string(raw)), `, "zip_data": null}`...)
	}
	return append(b, `], "version": 2}`...), nil
}
