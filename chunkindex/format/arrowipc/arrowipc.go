// Package arrowipc reads Arrow's IPC files and streams, as written by pyarrow, Polars, Feather and
// Hugging Face's save_to_disk. A sample is a row, encoded as in docs/spec/rows.md, and a part is
// the value of a column.
//
// A record batch is a frame: it is read as a whole and decoded into rows when it enters a cache.
// Batches of samples are sent as Arrow streams.
package arrowipc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/hub"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/format/rowscan"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// magic is the magic number at both ends of a file. Streams have none.
const magic = "ARROW1"

// Format returns the format of Arrow's files and streams.
func Format() format.Format {
	return format.Format{Name: framing.Arrow, Shards: "names in .arrow, .arrows, .ipc, .feather", Survey: survey}
}

// survey claims Arrow files, or chunks of LitData that end with an Arrow file of their rows.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	chunks, err := offsets.ReadRows(ctx, l)
	if err != nil {
		return nil, err
	}
	f := files(chunks != nil)
	if chunks == nil {
		return f.Survey(ctx, l, o)
	}
	f.Suffixes, f.Shards = []string{".bin"}, chunks
	d, err := f.Survey(ctx, l, o)
	if d != nil {
		d.Beside, d.Told = []string{offsets.IndexKey}, true
	}
	return d, err
}

// files describes Arrow files, or chunks of LitData.
func files(chunks bool) rowscan.Files {
	return rowscan.Files{
		Kind:     rowscan.Kind{Codec: codec.Arrow, Frame: "record batch"},
		Suffixes: []string{".arrow", ".arrows", ".ipc", ".feather"},
		Packed:   "an Arrow file that is compressed as a whole is not supported: decompress it, or write it with compressed buffers",
		Open: func(ctx context.Context, in format.Ranges, size int64, _ []string) ([]*rows.Node, rowscan.File, error) {
			w := window{ctx: ctx, in: in, size: size}
			if chunks {
				var err error
				if w.start, w.size, err = offsets.Rows(ctx, in, size); err == nil && w.size == 0 {
					err = errors.New("it does not end with rows of Arrow, unlike the first chunk: optimize again, with values of one type for each key")
				}
				if err != nil {
					return nil, nil, err
				}
			}
			f, err := open(w)
			if err != nil {
				return nil, nil, err
			}
			f.decoder = arrowbatch.NewDecoder(f.schema, arrowbatch.MaxBatch)
			hub.Label(f.schema.Fields, f.schema.Hub)
			return f.schema.Fields, f, nil
		},
	}
}

// Columns returns the columns of a file or stream.
func Columns(ctx context.Context, l format.Listing, o format.Object) ([]*rows.Node, error) {
	f, err := open(window{ctx: ctx, in: format.Listed{Listing: l, Key: o.Key}, size: o.Size})
	if err != nil {
		return nil, err
	}
	return f.schema.Fields, nil
}

// file is a file or stream whose schema has been read.
type file struct {
	window
	schema  *arrowbatch.Schema
	decoder *arrowbatch.Decoder
	footer  *arrowbatch.Footer // lists the remaining messages of a file; nil: a stream
	at      int64              // offset of a stream's next message
	used    map[int64][]byte   // dictionary values used by record batches that are not in a chunk yet, by offset of the record batch
}

// open reads the schema from a file's footer or from a stream's first message.
func open(w window) (*file, error) {
	f := &file{window: w, used: map[int64][]byte{}}
	head, err := f.bytes(0, min(w.size, int64(len(magic))+2))
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(magic)):
		return f, f.readFooter()
	case bytes.HasPrefix(head, []byte("FEA1")):
		return nil, errors.New("it is a Feather file of version 1, which is not supported: write it again with pyarrow.feather.write_feather, whose default is version 2")
	case len(head) < 8:
		return nil, fmt.Errorf("it has %d bytes, too few for an Arrow file or stream", w.size)
	}
	m, err := f.message()
	if err != nil {
		return nil, fmt.Errorf("it does not begin like an Arrow file or an Arrow stream: %w", err)
	}
	if m.Kind != arrowbatch.KindSchema || m.Body != 0 {
		return nil, errors.New("its first message is not a schema")
	}
	f.schema, err = m.ParseSchema()
	return f, err
}

// tail is the length of the data after the footer: the footer's length and the magic number.
const tail = 4 + int64(len(magic))

// readFooter reads the footer at the end of a file.
func (f *file) readFooter() error {
	if f.size < 8+tail {
		return fmt.Errorf("it has %d bytes, too few for an Arrow file", f.size)
	}
	b, err := f.bytes(f.size-tail, tail)
	if err != nil {
		return err
	}
	if string(b[4:]) != magic {
		return fmt.Errorf("it does not end with %s like an Arrow file: it may be truncated", magic)
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > f.size-8-tail || n > arrowbatch.MaxMetadata {
		return fmt.Errorf("its footer of %d bytes exceeds the file or the limit of %d", n, arrowbatch.MaxMetadata)
	}
	if b, err = f.bytes(f.size-tail-n, n); err != nil {
		return err
	}
	if f.footer, err = arrowbatch.ParseFooter(b); err == nil {
		f.schema = f.footer.Schema
	}
	return err
}

// message reads the head of a stream's next message. It returns io.EOF after the last message.
func (f *file) message() (*arrowbatch.Message, error) {
	if f.at == f.size {
		return nil, errors.New("the stream has no end marker: it may be truncated, or its writer was not closed")
	}
	b, err := f.bytes(f.at, min(8, f.size-f.at))
	if err != nil {
		return nil, err
	}
	n, err := arrowbatch.HeadLength(b)
	if err != nil {
		return nil, err
	}
	if b, err = f.bytes(f.at, n); err != nil {
		return nil, err
	}
	m, err := arrowbatch.ParseMessage(b)
	if err != nil {
		return nil, err
	}
	if m.Body > f.size-f.at-n {
		return nil, fmt.Errorf("message at offset %d: its last %d bytes are missing: the stream may be truncated", f.at, m.Body-(f.size-f.at-n))
	}
	f.at += n + m.Body
	return m, nil
}
