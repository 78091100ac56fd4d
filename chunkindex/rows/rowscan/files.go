package rowscan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Files is a format of files that have a schema and rows.
type Files struct {
	Kind
	Suffixes []string // of the names of its files
	Packed   string   // why a file that is compressed as a whole is not read, and what to do
	// Open reads the schema of a file.
	Open func(ctx context.Context, in format.Ranges, size int64) (schema []*rows.Node, file File, err error)
}

// Kind is what the frames of a format are.
type Kind struct {
	Codec   codec.Codec
	Frame   string // what users call one
	Smaller string // how to write smaller ones
}

// Survey takes objects whose names are those of the format. If it was asked for by name, every object that holds data is a shard,
// whatever its name. The first file's schema is that of all.
func (f Files) Survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &dataset{Files: f}
	for _, object := range format.Data(l.Objects()) {
		if !o.Named && !slices.Contains(f.Suffixes, format.Ext(object.Key)) {
			continue
		}
		if c, _ := codec.Of(object.Key); c != codec.None {
			return nil, fmt.Errorf("object %s: %s", object.Key, f.Packed)
		}
		d.shards = append(d.shards, format.Shard{Object: object})
	}
	if err := d.readSchema(ctx, l); err != nil || d.constants == nil {
		return nil, err
	}
	for i := range d.shards {
		d.shards[i].Says = string(d.constants) // a scan is that of a file with this schema
	}
	return &format.Dataset{Shards: d.shards, Framing: d.constants, Decode: d.decode, Scan: d.scan}, nil
}

// dataset is what a survey found.
type dataset struct {
	Files
	shards    []format.Shard
	first     string // the shard whose schema all have
	constants json.RawMessage
	layout    *rows.Layout
}

// readSchema reads the schema of the first file that is not empty.
func (d *dataset) readSchema(ctx context.Context, l format.Listing) error {
	for _, s := range d.shards {
		if s.Size == 0 {
			continue
		}
		schema, _, err := d.Open(ctx, listed{l, s.Key}, s.Size)
		if err != nil {
			return fmt.Errorf("object %s: %w", s.Key, err)
		}
		if d.layout, err = rows.NewLayout(schema); err != nil {
			return fmt.Errorf("object %s: %w", s.Key, err)
		}
		d.first = s.Key
		d.constants, err = rows.Marshal(schema)
		return err
	}
	return nil
}

// listed reads ranges of an object of a listing.
type listed struct {
	format.Listing
	key string
}

func (l listed) ReadRange(ctx context.Context, offset int64, p []byte) error {
	in, err := l.Listing.Open(ctx, l.key, offset)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.ReadFull(in, p)
	return err
}

// decode begins decoding a file, which must have the schema of the first one.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	schema, file, err := d.Open(ctx, in, d.shards[shard].Size)
	if err != nil {
		return format.Decoded{}, err
	}
	own, err := rows.Marshal(schema)
	if err != nil {
		return format.Decoded{}, err
	}
	if !bytes.Equal(own, d.constants) {
		return format.Decoded{}, rows.Differ(d.first, d.constants, schema)
	}
	r := &reader{File: file, kind: d.Kind}
	return format.Decoded{ReadCloser: r, Codec: d.Codec, Frames: r}, nil
}

// scan finds the rows of a file.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	o := d.shards[shard].Object
	return Scan(format.NewCursor(ctx, o, in, out), d.layout, format.Stem(o.Key, d.Suffixes...))
}
