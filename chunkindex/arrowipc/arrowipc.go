// Package arrowipc reads Arrow's IPC files and streams: what pyarrow, Polars and Feather write, and Hugging Face's save_to_disk. A sample
// is a row, in the form of docs/rows.md, and a part is the value of a column.
//
// A record batch is a frame: it is read in one piece, and turned into rows when it enters a cache. Batches are Arrow streams.
package arrowipc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/hub"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/rows/rowscan"
)

// Name is what an index calls this format.
const Name = "arrow"

// magic is what a file begins and ends with. A stream has none.
const magic = "ARROW1"

// Format reads Arrow's files and streams.
func Format() format.Format {
	return format.Format{Name: Name, Shards: "names in .arrow, .arrows, .ipc, .feather", Survey: files().Survey, Framing: rowscan.NewFraming}
}

func files() rowscan.Files {
	return rowscan.Files{
		Kind:     rowscan.Kind{Codec: codec.Arrow, Frame: "record batch", Smaller: smaller},
		Suffixes: []string{".arrow", ".arrows", ".ipc", ".feather"},
		Packed:   "an Arrow file that is compressed as a whole is not read: decompress it, or write it with compressed buffers",
		Open: func(ctx context.Context, in format.Ranges, size int64) ([]*rows.Node, rowscan.File, error) {
			f, err := open(ctx, in, size)
			if err != nil {
				return nil, nil, err
			}
			f.decoder = arrowbatch.NewDecoder(f.schema, arrowbatch.MaxBatch)
			hub.Label(f.schema.Fields, f.schema.Hub)
			return f.schema.Fields, f, nil
		},
	}
}

// smaller is what to do where a record batch is too long.
const smaller = "write the file again in smaller record batches"

// file is a file or stream whose schema has been read.
type file struct {
	window
	schema  *arrowbatch.Schema
	decoder *arrowbatch.Decoder
	blocks  []arrowbatch.Block // of a file: those that are still to come
	listed  bool               // it is a file, whose footer names its record batches
	at      int64              // of the next message of a stream
}

// open reads the schema of a file, from its footer, or of a stream, from its first message.
func open(ctx context.Context, in format.Ranges, size int64) (*file, error) {
	f := &file{window: window{ctx: ctx, in: in, size: size}}
	head, err := f.bytes(0, min(size, int64(len(magic))+2))
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(magic)):
		f.listed = true
		return f, f.readFooter()
	case bytes.HasPrefix(head, []byte("FEA1")):
		return nil, errors.New("it is a Feather file of version 1, which is not read: write it again with pyarrow.feather.write_feather, whose default is version 2")
	case len(head) < 8:
		return nil, fmt.Errorf("it has %d bytes, too few for an Arrow file or stream", size)
	}
	m, err := f.message()
	if err != nil {
		return nil, fmt.Errorf("it begins neither as an Arrow file nor as a stream: %w", err)
	}
	if m.Kind != arrowbatch.KindSchema || m.Body != 0 {
		return nil, errors.New("its first message is not a schema")
	}
	f.schema, err = m.ParseSchema()
	return f, err
}

// tail is the length of what follows the footer: its own length, and the magic number.
const tail = 4 + int64(len(magic))

// readFooter reads a file's footer from its end.
func (f *file) readFooter() error {
	if f.size < 8+tail {
		return fmt.Errorf("it has %d bytes, too few for an Arrow file", f.size)
	}
	b := make([]byte, tail)
	if err := f.in.ReadRange(f.ctx, f.size-tail, b); err != nil {
		return err
	}
	if string(b[4:]) != magic {
		return fmt.Errorf("it does not end with %s as an Arrow file does: it may have been cut short", magic)
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > f.size-8-tail || n > arrowbatch.MaxMetadata {
		return fmt.Errorf("its footer of %d bytes is longer than the file allows, or than %d", n, arrowbatch.MaxMetadata)
	}
	b = make([]byte, n)
	if err := f.in.ReadRange(f.ctx, f.size-tail-n, b); err != nil {
		return err
	}
	var err error
	f.schema, f.blocks, err = arrowbatch.ParseFooter(b)
	return err
}

// message reads the head of the next message of a stream. It returns io.EOF after the last one.
func (f *file) message() (*arrowbatch.Message, error) {
	if f.at == f.size {
		return nil, errors.New("the stream lacks the mark of its end: it may have been cut short, or its writer was not closed")
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
		return nil, fmt.Errorf("message at offset %d: %d bytes are missing: the stream may have been cut short", f.at, m.Body-(f.size-f.at-n))
	}
	f.at += n + m.Body
	return m, nil
}

// next returns where the next record batch lies. It returns io.EOF after the last one.
func (f *file) next() (arrowbatch.Block, error) {
	if f.listed {
		if len(f.blocks) == 0 {
			return arrowbatch.Block{}, io.EOF
		}
		b := f.blocks[0]
		f.blocks = f.blocks[1:]
		if b.Offset > f.size || b.Length > f.size-b.Offset {
			return b, fmt.Errorf("record batch at offset %d lies outside of the file", b.Offset)
		}
		return b, nil
	}
	m, err := f.message()
	if err != nil {
		return arrowbatch.Block{}, err
	}
	if m.Kind != arrowbatch.KindRecords {
		return arrowbatch.Block{}, fmt.Errorf("message at offset %d is of kind %d, where a record batch should be", f.at-m.Head-m.Body, m.Kind)
	}
	return arrowbatch.Block{Offset: f.at - m.Head - m.Body, Length: m.Head + m.Body}, nil
}

// Begin implements rowscan.File.
func (f *file) Begin() (frame rowscan.Frame, d rowscan.Decoder, err error) {
	b, err := f.next()
	if err != nil {
		return frame, nil, err
	}
	frame = rowscan.Frame{Offset: b.Offset, Length: b.Length}
	if b.Length > arrowbatch.MaxBatch {
		return frame, nil, fmt.Errorf("it has %d bytes, more than %d: %s", b.Length, arrowbatch.MaxBatch, smaller)
	}
	stored, err := f.bytes(b.Offset, b.Length)
	if err != nil {
		return frame, nil, err
	}
	return frame, f.decoder, f.decoder.Begin(stored)
}

// Params implements rowscan.File.
func (f *file) Params(frames []rowscan.Frame) []byte {
	all := make([]arrowbatch.Batch, len(frames))
	for i, one := range frames {
		if all[i].Length = one.Length; i > 0 {
			all[i].Gap = one.Offset - frames[i-1].Offset - frames[i-1].Length
		}
	}
	return f.schema.Params(all)
}

// Close implements rowscan.File.
func (f *file) Close() error {
	f.decoder.Close()
	return nil
}
