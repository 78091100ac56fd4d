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
)

// readAhead bounds the rows of a row group that are decoded before the first of them is given out. If the whole row group is shorter,
// its length is known by then, and it may join the row groups before it in a chunk. A longer row group begins a chunk.
const readAhead = 64 << 20

// gather is how many bytes of rows are decoded at once of a longer row group.
const gather = 1 << 20

// reader gives the rows of a file, a row group after another.
type reader struct {
	ctx    context.Context
	in     format.Ranges
	groups []rowgroup.Group // those that are still to come
	stored []byte

	group   rowgroup.Group // at hand
	decoder *rowgroup.Decoder
	at      int64 // where its rows begin
	off     int64 // of the rows that were decoded
	rows    []byte
	next    int // those before it were given out

	codec.FrameList
	params []described // of the row groups that no chunk has yet
}

// described is the parameters of a row group.
type described struct {
	decoded int64 // where its rows begin
	params  []byte
}

// Params implements format.Frames: those of each row group of the chunk, with their length before them.
func (r *reader) Params(first, last int64) []byte {
	var all []byte
	done := 0
	for _, d := range r.params {
		if d.decoded > last {
			break
		}
		done++
		if d.decoded >= first {
			all = append(binary.AppendUvarint(all, uint64(len(d.params))), d.params...)
		}
	}
	r.params = r.params[done:]
	return all
}

// Close gives back the decoder.
func (r *reader) Close() error {
	if r.decoder != nil {
		r.decoder.Close()
		r.decoder = nil
	}
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.next == len(r.rows) {
		r.rows, r.next = r.rows[:0], 0
		var err error
		if r.decoder == nil {
			err = r.begin()
		} else {
			err = r.decode(gather)
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rows[r.next:])
	r.next += n
	return n, nil
}

// begin reads the next row group. It returns io.EOF after the last one.
func (r *reader) begin() error {
	if len(r.groups) == 0 {
		return io.EOF
	}
	r.group, r.groups = r.groups[0], r.groups[1:]
	n := r.group.Frame.Length
	if int64(cap(r.stored)) < n {
		r.stored = make([]byte, n)
	}
	r.stored = r.stored[:n:n]
	if err := r.in.ReadRange(r.ctx, r.group.Offset, r.stored); err != nil {
		return err
	}
	var err error
	if r.decoder, err = rowgroup.NewDecoder(r.group.Frame, r.stored, rowgroup.MaxGroup); err != nil {
		return r.fail(err)
	}
	r.at = r.off
	r.Add(codec.Frame{Stored: r.group.Offset, Decoded: r.at, DecodedEnd: r.at})
	r.params = append(r.params, described{r.at, r.group.Frame.Params()})
	if r.group.Raw > readAhead {
		return r.decode(gather)
	}
	return r.decode(readAhead)
}

// decode decodes rows until there are at least so many bytes, or the row group ends.
func (r *reader) decode(most int) error {
	for len(r.rows) < most {
		n := len(r.rows)
		b, err := r.decoder.Next(r.rows, rowgroup.MaxGroup)
		r.rows = b
		r.off += int64(len(b) - n)
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		if err != nil {
			return r.fail(err)
		}
		if r.off-r.at > rowgroup.MaxGroup {
			return r.fail(fmt.Errorf("its rows have more than %d bytes: write the file again with smaller row groups (row_group_size=)", rowgroup.MaxGroup))
		}
		r.Last().DecodedEnd = r.off
	}
	return nil
}

// finish ends the row group.
func (r *reader) finish() error {
	if err := r.decoder.Fits(r.off - r.at); err != nil {
		return r.fail(err)
	}
	r.Last().StoredEnd = r.group.Offset + r.group.Frame.Length
	return r.Close()
}

func (r *reader) fail(err error) error {
	return fmt.Errorf("row group at offset %d: %w", r.group.Offset, err)
}
