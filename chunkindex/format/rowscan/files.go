// Package rowscan contains the common parts of formats whose samples are rows: the survey of files
// with a common schema, and the scanner that finds rows and their parts.
package rowscan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Files describes a format whose files have a schema and rows.
type Files struct {
	Kind
	Suffixes []string       // suffixes of file names
	Shards   []format.Shard // shards that the format's own index lists; nil: files with the suffixes
	Packed   string         // error text for a file whose content is compressed as a whole
	Names    []string       // columns to read, as in rows.Choose; none: all
	// Open reads the schema of a file, with the named columns.
	Open func(ctx context.Context, in format.Ranges, size int64, names []string) (schema []*rows.Node, file File, err error)
}

// Kind describes the frames of a format.
type Kind struct {
	Codec codec.Codec
	Frame string // user-visible name of a frame
}

// Survey claims objects by their suffix. If the user names the format, it claims all objects that
// can hold samples. The schema of the dataset has the columns of all files, and those of Hive
// partitions. The files also define the class names, unless a README does.
func (f Files) Survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &dataset{Files: f, shards: f.Shards}
	for _, object := range format.Called(l, o, f.Suffixes...) {
		if c, _ := codec.Of(object.Key); c != codec.None {
			return nil, fmt.Errorf("object %s: %s", object.Key, f.Packed)
		}
		if f.Shards == nil {
			d.shards = append(d.shards, format.Shard{Object: object})
		}
	}
	if err := d.chooseNames(); err != nil {
		return nil, err
	}
	if err := d.readSchemas(ctx, l); err != nil || d.schema == nil {
		return nil, err
	}
	if err := d.addPartitions(); err != nil {
		return nil, err
	}
	var err error
	if d.layout, err = rows.NewLayout(d.schema); err != nil {
		return nil, err
	}
	constants, err := d.label(ctx, o)
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
	shards     []format.Shard
	schema     []*rows.Node
	origins    map[string]string   // for each column, the first shard that has it
	classes    map[string][]string // class names from the shards, which all shards must share; nil: a README defines them
	layout     *rows.Layout
	lacking    map[string]bool            // columns that not all files have
	names      []string                   // columns to read from the files
	partitions map[string][]rows.Constant // columns of a shard that its directories define
}

// chooseNames sets the columns to read from the files: the chosen ones that are not partitions.
func (d *dataset) chooseNames() error {
	if len(d.Names) == 0 || len(d.shards) == 0 {
		return nil
	}
	all, err := partitionsOf(d.shards[0].Key)
	if err != nil {
		return fmt.Errorf("object %s: %w", d.shards[0].Key, err)
	}
	d.names = slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool {
		return slices.ContainsFunc(all, func(p partition) bool { return p.name == name })
	})
	if len(d.names) == 0 {
		return fmt.Errorf("the columns %q are in directory names: choose a column of the files too (--fields)", d.Names)
	}
	return nil
}

// schemasAtOnce is the number of files whose schemas are read concurrently.
const schemasAtOnce = 32

// readSchemas merges the schemas of all non-empty files.
func (d *dataset) readSchemas(ctx context.Context, l format.Listing) error {
	d.origins, d.lacking = map[string]string{}, map[string]bool{}
	files := slices.DeleteFunc(slices.Clone(d.shards), func(s format.Shard) bool { return s.Size == 0 })
	for some := range slices.Chunk(files, schemasAtOnce) {
		schemas, errs := make([][]*rows.Node, len(some)), make([]error, len(some))
		var group sync.WaitGroup
		for i, s := range some {
			group.Go(func() { schemas[i], _, errs[i] = d.Open(ctx, format.Listed{Listing: l, Key: s.Key}, s.Size, d.names) })
		}
		group.Wait()
		for i, s := range some {
			if err := cmp.Or(errs[i], d.merge(s.Key, schemas[i])); err != nil {
				return fmt.Errorf("object %s: %w", s.Key, err)
			}
		}
	}
	return nil
}

// merge adds the schema of one file to that of the dataset.
func (d *dataset) merge(key string, schema []*rows.Node) (err error) {
	if _, err := rows.NewLayout(schema); err != nil {
		return err
	}
	for _, n := range schema {
		if d.origins[n.Name] == "" {
			d.origins[n.Name] = key
		}
	}
	if d.schema == nil {
		d.schema = schema
		return nil
	}
	has := func(fields []*rows.Node, name string) bool {
		return slices.ContainsFunc(fields, func(n *rows.Node) bool { return n.Name == name })
	}
	for name := range d.origins {
		if !has(d.schema, name) || !has(schema, name) {
			d.lacking[name] = true
		}
	}
	d.schema, err = rows.Merge(d.schema, schema)
	if differ, ok := errors.AsType[*rows.MergeError](err); ok {
		column, _, _ := strings.Cut(differ.Column, ".")
		cure := "index the files of each type separately (--match)"
		if d.Codec == codec.Parquet {
			cure += ", or omit the column (--fields)"
		}
		return fmt.Errorf("column %q is of type %s here, and of type %s in %s: %s", differ.Column, differ.Other, differ.First, d.origins[column], cure)
	}
	return err
}

// label returns the constants of the dataset: its schema with class names. Names in a README take
// precedence, as in the datasets library.
func (d *dataset) label(ctx context.Context, o format.Options) (json.RawMessage, error) {
	d.classes = rows.Classes(d.schema)
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
	rows.SetClasses(d.schema, classes)
	return rows.Marshal(d.schema)
}

// decode starts decoding a file. Its rows are converted to those of the dataset.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	s := d.shards[shard]
	schema, file, err := d.Open(ctx, in, s.Size, d.names)
	if err != nil {
		return format.Decoded{}, err
	}
	for column, names := range rows.Classes(schema) {
		if others, ok := d.classes[column]; ok && !slices.Equal(others, names) {
			return format.Decoded{}, fmt.Errorf("the classes of its column %q differ from those of %s, so a number would have two meanings: index them separately (--match), or name the classes in README.md", column, d.shards[0].Key)
		}
	}
	if _, err := rows.Merge(d.schema, schema); err != nil {
		return format.Decoded{}, fmt.Errorf("its schema has changed since the survey: %w", err)
	}
	m, err := rows.NewMapping(d.schema, schema, d.partitions[s.Key])
	if err != nil {
		return format.Decoded{}, err
	}
	c := d.Codec
	if m != nil {
		file.Map(m)
		c |= codec.Mapped
	}
	r := &reader{File: file, kind: d.Kind, mapping: m}
	return format.Decoded{ReadCloser: r, Codec: c, Frames: r}, nil
}

// scan scans the rows of a file.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	o := d.shards[shard].Object
	return Scan(format.NewCursor(ctx, o, in, out), d.layout, format.Stem(o.Key, d.Suffixes...))
}
