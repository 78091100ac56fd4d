// Package parquet reads Parquet files. A sample is a row, in the form of docs/spec/rows.md, and a part is the value of a column.
//
// A row group is a frame: it is read in one piece, and decoded when it enters a cache.
package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/hub"
	"github.com/millrace-data/millrace/chunkindex/format/rowscan"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

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
		Name:   framing.Parquet,
		Shards: "names in .parquet, .parq",
		Last:   true, // img2dataset puts a table of them beside the shards that hold the pictures
		Takes:  []format.Option{format.Fields},
		Survey: func(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
			return files(o.Fields).Survey(ctx, l, o)
		},
	}
}

// files reads files, and of their columns those that rows.Choose takes by these names.
func files(names []string) rowscan.Files {
	return rowscan.Files{
		Kind:     rowscan.Kind{Codec: codec.Parquet, Frame: "row group"},
		Suffixes: []string{".parquet", ".parq"},
		Packed:   "a Parquet file that is compressed as a whole is not read: decompress it, since its pages are compressed inside",
		Open: func(ctx context.Context, in format.Ranges, size int64) ([]*rows.Node, rowscan.File, error) {
			f, err := readFooter(ctx, in, size, names)
			if err != nil {
				return nil, nil, err
			}
			hub.Label(f.Fields, f.Hub)
			return f.Fields, &file{ctx: ctx, in: in, groups: f.Groups}, nil
		},
	}
}

// file is a file that is being decoded.
type file struct {
	ctx     context.Context
	in      format.Ranges
	groups  []rowgroup.Group // those that are still to come
	stored  []byte
	decoder *rowgroup.Decoder
}

// Begin implements rowscan.File.
func (f *file) Begin() (frame rowscan.Frame, d rowscan.Decoder, err error) {
	if len(f.groups) == 0 {
		return frame, nil, io.EOF
	}
	f.release()
	g := f.groups[0]
	f.groups = f.groups[1:]
	n := g.Frame.Length
	frame = rowscan.Frame{Offset: g.Offset, Length: n, Pieces: g.Pieces, Rows: g.Raw, Params: g.Frame.Params()}
	if int64(cap(f.stored)) < n {
		f.stored = make([]byte, n)
	}
	f.stored = f.stored[:n:n]
	rest := f.stored
	for _, r := range g.Read() {
		if err := f.in.ReadRange(f.ctx, r.Offset, rest[:r.Length]); err != nil {
			return frame, nil, err
		}
		rest = rest[r.Length:]
	}
	f.decoder, err = rowgroup.NewDecoder(g.Frame, f.stored, rowgroup.MaxGroup)
	return frame, f.decoder, err
}

// Params implements rowscan.File: those of each row group, with their length before them.
func (f *file) Params(frames []rowscan.Frame) (all []byte) {
	for _, one := range frames {
		all = append(binary.AppendUvarint(all, uint64(len(one.Params))), one.Params...)
	}
	return all
}

// Close implements rowscan.File.
func (f *file) Close() error {
	f.release()
	return nil
}

func (f *file) release() {
	if f.decoder != nil {
		f.decoder.Close()
		f.decoder = nil
	}
}

// guess is how many bytes at the end of a file are read at first: a footer is usually shorter.
const guess = 64 << 10

// readFooter reads a file's footer from its end.
func readFooter(ctx context.Context, in format.Ranges, size int64, names []string) (*rowgroup.File, error) {
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
		return nil, errors.New("its footer is encrypted, which is not supported: write the file without encryption and have the store encrypt")
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
	return rowgroup.ReadFooter(b[from:from+n], size-tail-n, names)
}
