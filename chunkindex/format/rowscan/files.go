// Package rowscan contains the common parts of formats whose samples are rows: the survey of files
// with a common schema, and the scanner that finds rows and their parts.
package rowscan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Files describes a format whose files have a schema and rows.
type Files struct {
	Kind
	Suffixes []string // suffixes of file names
	Packed   string   // error text for a file whose content is compressed as a whole
	// Open reads the schema of a file.
	Open func(ctx context.Context, in format.Ranges, size int64) (schema []*rows.Node, file File, err error)
}

// Kind describes the frames of a format.
type Kind struct {
	Codec codec.Codec
	Frame string // user-visible name of a frame
}

// Survey claims objects by their suffix. If the user names the format, it claims all objects that
// can hold samples. The first file defines the schema of all files. It also defines the class
// names, unless a README does.
func (f Files) Survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &dataset{Files: f}
	for _, object := range format.Called(l, o, f.Suffixes...) {
		if c, _ := codec.Of(object.Key); c != codec.None {
			return nil, fmt.Errorf("object %s: %s", object.Key, f.Packed)
		}
		d.shards = append(d.shards, format.Shard{Object: object})
	}
	schema, err := d.readSchema(ctx, l)
	if err != nil || schema == nil {
		return nil, err
	}
	constants, err := d.label(ctx, schema, o)
	if err != nil {
		return nil, err
	}
	says := string(constants)
	for i := range d.shards {
		d.shards[i].Says = says // a scan depends on the schema
	}
	return &format.Dataset{Shards: d.shards, Framing: constants, Decode: d.decode, Scan: d.scan}, nil
}

// dataset is the result of a survey.
type dataset struct {
	Files
	shards  []format.Shard
	first   string              // the shard that defines the schema
	schema  json.RawMessage     // without classes
	classes map[string][]string // class names from the first shard, which all other shards must have too; nil: a README defines them
	layout  *rows.Layout
}

// readSchema reads the schema of the first non-empty file.
func (d *dataset) readSchema(ctx context.Context, l format.Listing) ([]*rows.Node, error) {
	for _, s := range d.shards {
		if s.Size == 0 {
			continue
		}
		schema, _, err := d.Open(ctx, listed{l, s.Key}, s.Size)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", s.Key, err)
		}
		if d.layout, err = rows.NewLayout(schema); err != nil {
			return nil, fmt.Errorf("object %s: %w", s.Key, err)
		}
		d.first = s.Key
		return schema, nil
	}
	return nil, nil
}

// label returns the constants of the dataset: the first file's schema with its class names. Names
// in a README take precedence, as in the datasets library.
func (d *dataset) label(ctx context.Context, schema []*rows.Node, o format.Options) (constants json.RawMessage, err error) {
	d.classes = rows.Classes(schema)
	rows.SetClasses(schema, nil)
	if d.schema, err = rows.Marshal(schema); err != nil {
		return nil, err
	}
	classes := d.classes
	if o.Classes != nil {
		card, err := o.Classes(ctx)
		if err != nil {
			return nil, err
		}
		if len(card) > 0 {
			classes = maps.Clone(classes)
			maps.Copy(classes, card)
			d.classes = nil
		}
	}
	rows.SetClasses(schema, classes)
	return rows.Marshal(schema)
}

// listed reads ranges of an object through a listing.
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

// decode starts decoding a file, whose schema must equal the first file's schema.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	schema, file, err := d.Open(ctx, in, d.shards[shard].Size)
	if err != nil {
		return format.Decoded{}, err
	}
	classes := rows.Classes(schema)
	rows.SetClasses(schema, nil)
	own, err := rows.Marshal(schema)
	if err != nil {
		return format.Decoded{}, err
	}
	if !bytes.Equal(own, d.schema) {
		return format.Decoded{}, rows.Differ(d.first, d.schema, schema)
	}
	for column, names := range d.classes {
		if its, ok := classes[column]; ok && !slices.Equal(its, names) {
			return format.Decoded{}, fmt.Errorf("the classes of its column %q differ from those of %s, so a number would have two meanings: index them separately (--match), or name the classes in README.md", column, d.first)
		}
	}
	r := &reader{File: file, kind: d.Kind}
	return format.Decoded{ReadCloser: r, Codec: d.Codec, Frames: r}, nil
}

// scan scans the rows of a file.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	o := d.shards[shard].Object
	return Scan(format.NewCursor(ctx, o, in, out), d.layout, format.Stem(o.Key, d.Suffixes...))
}
