package arrowipc

import (
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/format/rowscan"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// next returns the location of the next record batch, after reading any dictionaries before it. It
// returns io.EOF after the last record batch.
func (f *file) next() (arrowbatch.Block, error) {
	if f.footer != nil {
		return f.nextListed()
	}
	for {
		m, err := f.message()
		if err != nil {
			return arrowbatch.Block{}, err
		}
		b := arrowbatch.Block{Offset: f.at - m.Head - m.Body, Length: m.Head + m.Body}
		switch m.Kind {
		case arrowbatch.KindRecords:
			return b, nil
		case arrowbatch.KindDictionary:
			if err := f.dictionary(b); err != nil {
				return b, err
			}
		default:
			return arrowbatch.Block{}, fmt.Errorf("message at offset %d has kind %d instead of a record batch", b.Offset, m.Kind)
		}
	}
}

// nextListed returns the next record batch in the footer, after reading all dictionaries of the
// file.
func (f *file) nextListed() (b arrowbatch.Block, err error) {
	for ; len(f.footer.Dictionaries) > 0; f.footer.Dictionaries = f.footer.Dictionaries[1:] {
		if err := f.dictionary(f.footer.Dictionaries[0]); err != nil {
			return b, err
		}
	}
	if len(f.footer.Batches) == 0 {
		return b, io.EOF
	}
	b, f.footer.Batches = f.footer.Batches[0], f.footer.Batches[1:]
	return b, f.within(b, "record batch")
}

func (f *file) within(b arrowbatch.Block, what string) error {
	if b.Offset > f.size || b.Length > f.size-b.Offset {
		return fmt.Errorf("%s at offset %d is outside the file", what, b.Offset)
	}
	return nil
}

// dictionary reads a dictionary.
func (f *file) dictionary(b arrowbatch.Block) error {
	if err := f.within(b, "dictionary"); err != nil {
		return err
	}
	err := arrowbatch.ErrDictionary
	if b.Length <= arrowbatch.MaxDictionary {
		var stored []byte
		if stored, err = f.bytes(b.Offset, b.Length); err == nil {
			err = f.decoder.Dictionary(stored, f.footer == nil)
		}
	}
	if err != nil {
		return fmt.Errorf("dictionary at offset %d: %w", b.Offset, err)
	}
	return nil
}

// Begin implements rowscan.File.
func (f *file) Begin() (frame rowscan.Frame, d rowscan.Decoder, err error) {
	b, err := f.next()
	if err != nil {
		return frame, nil, err
	}
	frame = rowscan.Frame{Offset: f.start + b.Offset, Length: b.Length}
	if b.Length > arrowbatch.MaxBatch {
		return frame, nil, fmt.Errorf("it has %d bytes, more than %d: %s", b.Length, arrowbatch.MaxBatch, codec.Arrow.Smaller())
	}
	stored, err := f.bytes(b.Offset, b.Length)
	if err != nil {
		return frame, nil, err
	}
	return frame, batch{f.decoder, f, frame.Offset}, f.decoder.Begin(stored)
}

// batch decodes the rows of a record batch.
type batch struct {
	*arrowbatch.Decoder
	file   *file
	offset int64
}

// Fits implements rowscan.Decoder. It also records the dictionary values that the rows use.
func (b batch) Fits(decoded int64) error {
	if err := b.Decoder.Fits(decoded); err != nil {
		return err
	}
	values, err := b.Used()
	if len(values) > 0 {
		b.file.used[b.offset] = values
	}
	return err
}

// Map implements rowscan.File.
func (f *file) Map(m *rows.Mapping) { f.decoder.Map(m) }

// Params implements rowscan.File.
func (f *file) Params(frames []rowscan.Frame) []byte {
	all := make([]arrowbatch.Batch, len(frames))
	for i, one := range frames {
		all[i].Length, all[i].Dictionaries = one.Length, f.used[one.Offset]
		delete(f.used, one.Offset)
		if i > 0 {
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
