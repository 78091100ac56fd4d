// Package parquet reads Parquet files. A sample is a row, encoded as in docs/spec/rows.md, and a
// part is the value of a column.
//
// A row group is a frame: it is read as a whole and decoded when it enters a cache.
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

// Magic numbers at both ends of a file, and at the end of a file with an encrypted footer.
const (
	magic     = "PAR1"
	encrypted = "PARE"
)

// tail is the length of the data after the footer: the footer's length and the magic number.
const tail = 8

// Format returns the Parquet format.
func Format() format.Format {
	return format.Format{
		Name:   framing.Parquet,
		Shards: "names in .parquet, .parq",
		Last:   true, // img2dataset stores a table next to the shards that contain the images
		Takes:  []format.Option{format.Fields},
		Survey: func(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
			return files(o.Fields).Survey(ctx, l, o)
		},
	}
}

// files returns the file format that reads the columns selected by these names, as in rows.Choose.
func files(names []string) rowscan.Files {
	return rowscan.Files{
		Names:    names,
		Kind:     rowscan.Kind{Codec: codec.Parquet, Frame: "row group"},
		Suffixes: []string{".parquet", ".parq"},
		Packed:   "a Parquet file that is compressed as a whole is not supported: decompress it, since its pages are compressed inside",
		Open: func(ctx context.Context, in format.Ranges, size int64, names []string) ([]*rows.Node, rowscan.File, error) {
			f, err := readFooter(ctx, in, size, names)
			if err != nil {
				return nil, nil, err
			}
			hub.Label(f.Fields, f.Hub)
			declare(f.Fields, f.Arrow)
			return f.Fields, &file{ctx: ctx, in: in, groups: f.Groups}, nil
		},
	}
}

// file is a Parquet file that is being decoded.
type file struct {
	ctx     context.Context
	in      format.Ranges
	groups  []rowgroup.Group // remaining row groups
	stored  []byte
	mapping *rows.Mapping
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
	if f.decoder, err = rowgroup.NewDecoder(g.Frame, f.stored, rowgroup.MaxGroup); err != nil {
		return frame, nil, err
	}
	return frame, f.decoder, f.decoder.Map(f.mapping)
}

// Map implements rowscan.File.
func (f *file) Map(m *rows.Mapping) { f.mapping = m }

// Params implements rowscan.File. It returns the parameters of all row groups, each preceded by its
// length.
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

// guess is the number of bytes that the first read at the end of a file requests. They usually
// contain the footer.
const guess = 64 << 10

// readFooter reads the footer at the end of a file.
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
		return nil, fmt.Errorf("it does not end with %s like a Parquet file: it may be truncated, or another type of file", magic)
	}
	n := int64(binary.LittleEndian.Uint32(b[len(b)-tail:]))
	if n > min(size-tail-int64(len(magic)), rowgroup.MaxFooter) {
		return nil, fmt.Errorf("its footer of %d bytes exceeds the file or the limit of %d", n, rowgroup.MaxFooter)
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
