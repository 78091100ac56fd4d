// Package litdata reads the chunks written by LitData's optimize, using the index.json stored with
// them.
//
// For its PyTreeLoader, a sample is stored as the lengths of all leaves of its tree, followed by
// the serialized leaves. The leaves are the parts of the sample, "0", "1", ... in the order of the
// tree. For its TokensLoader, a sample is a block of tokens, and all blocks have the same size
// (tokens.go). Chunks may contain zstd frames (frames.go). The package arrowipc reads chunks of Arrow
// rows. The package rejects Parquet files by name, and also chunks with encrypted contents.
package litdata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// suffix is the suffix of chunk names.
const suffix = ".bin"

// Format returns the format of LitData's chunks.
func Format() format.Format {
	return format.Format{
		Name:   framing.LitData,
		Shards: "an index.json of LitData",
		Takes:  []format.Option{format.SequenceLength},
		Survey: survey,
	}
}

// config is the index's description of all chunks.
type config struct {
	Compression *string         `json:"compression"`
	Level       *string         `json:"compression_level"`
	DataFormat  []string        `json:"data_format"`
	DataSpec    *string         `json:"data_spec"`
	Encryption  json.RawMessage `json:"encryption"`
	ItemLoader  string          `json:"item_loader"`
}

// chunk is the index entry of a chunk.
type chunk struct {
	Bytes    int64  `json:"chunk_bytes"` // before compression
	Samples  int64  `json:"chunk_size"`
	Dim      *int64 `json:"dim"` // number of tokens, if the items are tokens
	Filename string `json:"filename"`
}

// readIndex reads the chunks and their configuration from an index.json with a list of "chunks". c
// is nil if there is none, or if the chunks contain rows of Arrow, which that format reads.
func readIndex(ctx context.Context, l format.Listing, o format.Options) (chunks []chunk, c *config, err error) {
	var index struct {
		Chunks []chunk `json:"chunks"`
		Config *config `json:"config"`
	}
	found, err := offsets.ReadIndex(ctx, l, "chunks", &index)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		if o.Named {
			return nil, nil, fmt.Errorf("no %s with a list of \"chunks\"", offsets.IndexKey)
		}
		return nil, nil, nil
	}
	if index.Config == nil || len(index.Chunks) == 0 {
		return nil, nil, fmt.Errorf("%s has no chunks or no config", offsets.IndexKey)
	}
	if err := index.Config.check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", offsets.IndexKey, err)
	}
	if rows, err := offsets.ReadRows(ctx, l); err != nil || rows != nil {
		if err == nil && o.Named {
			err = fmt.Errorf("chunk %.200q contains rows of Arrow: use --format arrow", rows[0].Key)
		}
		return nil, nil, err
	}
	return index.Chunks, index.Config, nil
}

// survey claims the chunks in an index.json.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	chunks, c, err := readIndex(ctx, l, o)
	if err != nil || c == nil {
		return nil, err
	}
	var cut blocks
	if c.ofTokens() {
		if cut, err = newBlocks(chunks, o.SequenceLength); err != nil {
			return nil, fmt.Errorf("%s: %w", offsets.IndexKey, err)
		}
	} else if o.SequenceLength != 0 {
		return nil, fmt.Errorf("--sequence-length does not apply to the items of %s: it applies only to chunks of %s", offsets.IndexKey, tokensLoader)
	}
	listed := make([]offsets.Listed, 0, len(chunks))
	for _, one := range chunks {
		s, err := one.listed(c, cut)
		if err != nil {
			return nil, fmt.Errorf("%s: chunk %.200q: %w", offsets.IndexKey, one.Filename, err)
		}
		listed = append(listed, s)
	}
	shards, listed, err := offsets.Match(l.Objects(), listed)
	if err != nil {
		return nil, err
	}
	framing, err := json.Marshal(framing.LitDataConstants{DataFormat: c.DataFormat, DataSpec: *c.DataSpec, BlockSize: cut.tokens})
	if err != nil {
		return nil, err
	}
	d := &format.Dataset{
		Shards:  shards,
		Framing: framing,
		Beside:  []string{offsets.IndexKey},
		Told:    true,
		Scan: func(ctx context.Context, i int, in io.Reader, out format.Sink) error {
			return listed[i].Scan(format.NewCursor(ctx, shards[i].Object, in, out))
		},
	}
	if c.framed() {
		d.Decode = func(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
			return decode(ctx, listed[shard], in)
		}
	}
	if cut.tokens > 0 {
		d.LeftOut = func(i int, windows uint64) int64 { return cut.leftOut(listed[i].Shard, windows) }
	}
	return d, nil
}

// check returns an error with advice if the configuration describes unsupported chunks.
func (c *config) check() error {
	switch c.ItemLoader {
	case "PyTreeLoader", tokensLoader, "":
	default:
		return fmt.Errorf("item_loader %.100q is not supported, only PyTreeLoader and %s", c.ItemLoader, tokensLoader)
	}
	if len(c.DataFormat) == 0 || len(c.DataFormat) > format.MaxParts || c.DataSpec == nil {
		return fmt.Errorf("data_format has %d leaves, or data_spec is missing", len(c.DataFormat))
	}
	if c.ofTokens() && (len(c.DataFormat) != 1 || !strings.HasPrefix(c.DataFormat[0], "no_header_")) {
		return fmt.Errorf("data_format %.100q is not a format of tokens", c.DataFormat)
	}
	if e := bytes.TrimSpace(c.Encryption); len(e) > 0 && string(e) != "null" {
		return errors.New("encrypted chunks are not supported: optimize without encryption, and have the store encrypt")
	}
	if c.framed() && (*c.Level != perBatch && *c.Level != perSample || c.ofTokens()) {
		return fmt.Errorf("compression_level %.100q is not supported: optimize with compression_level=\"chunk\", or without compression", *c.Level)
	}
	if name := c.compression(); name != "" && name != "zstd" && !strings.HasPrefix(name, "zstd:") {
		return fmt.Errorf("compression %.100q is not supported, only zstd", name)
	}
	return nil
}

func (c *config) compression() string {
	if c.Compression == nil {
		return ""
	}
	return *c.Compression
}

// listed validates the index entry of a chunk.
func (k chunk) listed(c *config, cut blocks) (offsets.Listed, error) {
	if k.Bytes < 0 || k.Samples < 0 {
		return offsets.Listed{}, errors.New("chunk_bytes or chunk_size is invalid")
	}
	stored, says := k.Bytes, ""
	if c.framed() {
		says = ", zstd by " + *c.Level
	}
	if name := c.compression(); name != "" && !c.framed() {
		stored = -1
		if !strings.HasSuffix(k.Filename, "."+name+suffix) {
			return offsets.Listed{}, fmt.Errorf("its name does not end in .%s%s, although it is compressed", name, suffix)
		}
	} else if k.Filename != format.Plain(k.Filename) {
		return offsets.Listed{}, errors.New("its name indicates compression, but compression is not set")
	}
	fields := make([]offsets.Field, len(c.DataFormat))
	for i := range fields {
		fields[i].Name = strconv.Itoa(i)
	}
	return offsets.Listed{
		Key: k.Filename, Size: stored, Says: fmt.Sprintf("%d leaves, %d samples, %d bytes, cut to %d%s", len(fields), k.Samples, k.Bytes, cut.bytes, says),
		Shard: offsets.Shard{
			Block: cut.bytes, Bare: c.framed(),
			Stem: format.Stem(k.Filename, suffix), Samples: uint64(k.Samples), Bytes: k.Bytes, Fields: fields,
			Tail: "; the samples may be Arrow rows, unlike those of the first chunk: optimize again",
		},
	}, nil
}
