package arrowipc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// window reads ranges of an object that follow each other, many of them in one request.
type window struct {
	ctx  context.Context
	in   format.Ranges
	size int64
	off  int64 // of what is held
	held []byte
}

// windowSize is how many bytes are read beyond those that are asked for, so that the head of the next message comes along.
const windowSize = 256 << 10

// bytes returns a range of the object, which is valid until the next one is asked for. What is held of it is not read again.
func (w *window) bytes(off, n int64) ([]byte, error) {
	if n < 0 || off < 0 || off > w.size || n > w.size-off {
		return nil, io.ErrUnexpectedEOF
	}
	var kept []byte
	if at := off - w.off; at >= 0 && at < int64(len(w.held)) {
		kept = w.held[at:]
	}
	if n <= int64(len(kept)) {
		return kept[:n], nil
	}
	most := min(n+windowSize, w.size-off)
	b := w.held[:0]
	if int64(cap(b)) < most {
		b = make([]byte, 0, most)
	}
	b = b[:copy(b[:most], kept)]
	rest := b[len(b):most]
	w.off, w.held = off, nil
	if err := w.in.ReadRange(w.ctx, off+int64(len(b)), rest); err != nil {
		return nil, err
	}
	w.held = b[:most]
	return w.held[:n], nil
}

// gather is how many bytes of rows are decoded at once.
const gather = 1 << 20

// readAhead bounds the rows of a record batch that are decoded before the first of them is given out. If the whole batch is shorter, its
// length is known by then, and it may join the batches before it in a chunk. A longer batch begins a chunk.
const readAhead = 64 << 20

// reader gives the rows of a file, a record batch after another.
type reader struct {
	ctx     context.Context
	file    *file
	decoder *arrowbatch.Decoder
	block   arrowbatch.Block // at hand
	open    bool             // it has rows that were not decoded
	at      int64            // where its rows begin
	off     int64            // of the rows that were decoded
	rows    []byte
	next    int // those before it were given out

	codec.FrameList
	batches []placed // that no chunk has yet
}

// placed is a record batch, and where its rows begin.
type placed struct {
	decoded int64
	block   arrowbatch.Block
}

// Params implements format.Frames.
func (r *reader) Params(first, last int64) []byte {
	var all []arrowbatch.Batch
	done, end := 0, int64(0)
	for _, p := range r.batches {
		if p.decoded > last {
			break
		}
		done++
		if p.decoded < first {
			continue
		}
		if len(all) == 0 {
			end = p.block.Offset
		}
		all = append(all, arrowbatch.Batch{Gap: p.block.Offset - end, Length: p.block.Length})
		end = p.block.Offset + p.block.Length
	}
	r.batches = r.batches[done:]
	return r.file.schema.Params(all)
}

// Close gives back the decoder.
func (r *reader) Close() error {
	r.decoder.Close()
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.next == len(r.rows) {
		r.rows, r.next = r.rows[:0], 0
		err := r.decode()
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rows[r.next:])
	r.next += n
	return n, nil
}

// decode decodes rows of the batch at hand, or of the next one. It returns io.EOF after the last one.
func (r *reader) decode() error {
	most := gather
	if !r.open {
		if err := r.begin(); err != nil {
			return err
		}
		most = readAhead
	}
	for len(r.rows) < most {
		b, err := r.decoder.Next(r.rows, arrowbatch.MaxBatch)
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		if err != nil {
			return r.fail(err)
		}
		r.off += int64(len(b) - len(r.rows))
		r.rows = b
		if r.off-r.at > arrowbatch.MaxBatch {
			return r.fail(fmt.Errorf("its rows have more than %d bytes: write the file again in smaller record batches", arrowbatch.MaxBatch))
		}
		r.Last().DecodedEnd = r.off
	}
	return nil
}

// begin reads the next record batch.
func (r *reader) begin() (err error) {
	if r.block, err = r.file.next(); err != nil {
		return err
	}
	if r.block.Length > arrowbatch.MaxBatch {
		return r.fail(fmt.Errorf("it has %d bytes, more than %d: write the file again in smaller record batches", r.block.Length, arrowbatch.MaxBatch))
	}
	stored, err := r.file.bytes(r.block.Offset, r.block.Length)
	if err != nil {
		return r.fail(err)
	}
	if err := r.decoder.Begin(stored); err != nil {
		return r.fail(err)
	}
	r.at, r.open = r.off, true
	r.Add(codec.Frame{Stored: r.block.Offset, Decoded: r.at, DecodedEnd: r.at})
	r.batches = append(r.batches, placed{r.at, r.block})
	return nil
}

// finish ends the record batch. One without a row is no frame.
func (r *reader) finish() error {
	r.open = false
	if r.off == r.at {
		r.batches = r.batches[:len(r.batches)-1]
		r.Drop()
		return nil
	}
	if err := r.decoder.Fits(r.off - r.at); err != nil {
		return r.fail(err)
	}
	r.Last().StoredEnd = r.block.Offset + r.block.Length
	return nil
}

func (r *reader) fail(err error) error {
	return fmt.Errorf("record batch at offset %d: %w", r.block.Offset, err)
}
