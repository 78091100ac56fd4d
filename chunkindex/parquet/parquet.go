// Package parquet reads Parquet files. A sample is a row, in the form of docs/rows.md, and a part is the value of a column.
//
// A row group is a frame: it is read in one piece, and decoded when it enters a cache.
package parquet

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/rows/rowscan"
)

// Name is what an index calls this format.
const Name = "parquet"

// The magic numbers with which a file begins and ends, and the end of one whose footer is encrypted.
const (
	magic     = "PAR1"
	encrypted = "PARE"
)

// tail is the length of what follows the footer: its own length, and the magic number.
const tail = 8

// Format reads Parquet files.
func Format() format.Format {
	return format.Format{
		Name:    Name,
		Shards:  "names in .parquet, .parq",
		Last:    true, // img2dataset puts a table of them beside the shards that hold the pictures
		Survey:  survey,
		Framing: rowscan.NewFraming,
	}
}

func suffixes() []string { return []string{".parquet", ".parq"} }

// survey takes objects whose names are those of Parquet files. If it was asked for by name, every object that holds data is a shard,
// whatever its name. The first file's footer gives the schema of all.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &dataset{}
	for _, object := range format.Data(l.Objects()) {
		if !o.Named && !slices.Contains(suffixes(), format.Ext(object.Key)) {
			continue
		}
		if c, _ := codec.Of(object.Key); c != codec.None {
			return nil, fmt.Errorf("object %s: a Parquet file that is compressed as a whole is not read: decompress it, since its pages are compressed inside", object.Key)
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
		f, err := readFooter(ctx, listed{l, s.Key}, s.Size)
		if err != nil {
			return fmt.Errorf("object %s: %w", s.Key, err)
		}
		if d.layout, err = rows.NewLayout(f.Fields); err != nil {
			return fmt.Errorf("object %s: %w", s.Key, err)
		}
		d.first = s.Key
		d.constants, err = rows.Marshal(f.Fields)
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
	in, err := l.Open(ctx, l.key, offset)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.ReadFull(in, p)
	return err
}

// guess is how many bytes at the end of a file are read at first: a footer is usually shorter.
const guess = 64 << 10

// readFooter reads a file's footer from its end.
func readFooter(ctx context.Context, in format.Ranges, size int64) (*rowgroup.File, error) {
	if size < int64(len(magic))+tail {
		return nil, fmt.Errorf("it has %d bytes, too few for a Parquet file", size)
	}
	b := make([]byte, min(size, guess))
	if err := in.ReadRange(ctx, size-int64(len(b)), b); err != nil {
		return nil, err
	}
	switch end := string(b[len(b)-len(magic):]); end {
	case magic:
	case encrypted:
		return nil, errors.New("its footer is encrypted, which is not read: write the file without encryption and have the store encrypt")
	default:
		return nil, fmt.Errorf("it does not end with %s as a Parquet file does: it may have been cut short, or be another kind of file", magic)
	}
	n := int64(binary.LittleEndian.Uint32(b[len(b)-tail:]))
	if n > min(size-tail-int64(len(magic)), rowgroup.MaxFooter) {
		return nil, fmt.Errorf("its footer of %d bytes is longer than the file allows, or than %d", n, rowgroup.MaxFooter)
	}
	if n+tail > int64(len(b)) {
		b = make([]byte, n+tail)
		if err := in.ReadRange(ctx, size-int64(len(b)), b); err != nil {
			return nil, err
		}
	}
	from := int64(len(b)) - tail - n
	return rowgroup.ReadFooter(b[from:from+n], size-tail-n)
}

// decode begins decoding a file, which must have the schema of the first one.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	f, err := readFooter(ctx, in, d.shards[shard].Size)
	if err != nil {
		return format.Decoded{}, err
	}
	own, err := rows.Marshal(f.Fields)
	if err != nil {
		return format.Decoded{}, err
	}
	if string(own) != string(d.constants) {
		return format.Decoded{}, rows.Differ(d.first, d.constants, f.Fields)
	}
	r := &reader{ctx: ctx, in: in, groups: f.Groups}
	return format.Decoded{ReadCloser: r, Codec: codec.Parquet, Frames: r}, nil
}

// scan finds the rows of a file.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	o := d.shards[shard].Object
	return rowscan.Scan(format.NewCursor(ctx, o, in, out), d.layout, format.Stem(o.Key, suffixes()...))
}
