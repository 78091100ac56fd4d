package rowscan

import (
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// File is a file whose frames, such as row groups or record batches, are decoded whole, one at a
// time.
type File interface {
	// Begin reads the next frame and starts decoding it. It returns io.EOF after the last
	// frame. If decoding fails, the returned Frame locates the error.
	Begin() (Frame, Decoder, error)
	// Map makes the frames that begin later convert their rows.
	Map(m *rows.Mapping)
	// Params returns the parameters of a chunk of consecutive frames.
	Params(frames []Frame) []byte
	// Close releases the decoder.
	Close() error
}

// Frame is the location and description of a frame.
type Frame struct {
	Offset, Length int64
	Pieces         []rows.Range // ranges to read, of Length bytes in total, if columns are omitted; nil: one range
	Rows           int64        // approximate bytes of its rows; 0: unknown
	Params         []byte       // decoding parameters of this frame, if the format has any

	decoded int64 // offset of the frame's rows in the decoded bytes
}

// end returns the stored offset after the last byte that is read from the frame.
func (f *Frame) end() int64 {
	if n := len(f.Pieces); n > 0 {
		return f.Pieces[n-1].End()
	}
	return f.Offset + f.Length
}

// Decoder decodes the rows of a frame.
type Decoder interface {
	// Next appends the next row to dst, which must not exceed limit. It returns io.EOF after the
	// last row.
	Next(dst []byte, limit int64) ([]byte, error)
	// Fits returns an error if decoding the frame needs more memory than is reserved. It is
	// called after all rows have been read; decoded is their total length.
	Fits(decoded int64) error
}

// readAhead is the number of bytes of rows that are decoded before the first row is returned. For a
// shorter frame, the length is then known, and the frame may join the preceding frames in a chunk.
// A longer frame begins a chunk.
const readAhead = 64 << 20

// gather is the number of bytes of rows that are decoded at a time from a longer frame.
const gather = 1 << 20

// reader reads the rows of a file, frame by frame.
type reader struct {
	File
	kind    Kind
	mapping *rows.Mapping // nil: rows are those of the dataset
	frame   Frame         // current frame
	decoder Decoder       // decodes the remaining rows of the frame; nil: the frame has ended
	off     int64         // decoded offset after the rows decoded so far
	rows    []byte
	next    int // start of the rows that are not returned yet

	codec.FrameList
	frames []Frame // frames that are not in a chunk yet
}

// Params implements format.Frames.
func (r *reader) Params(first, last int64) (params []byte, pieces []rows.Range) {
	from := 0
	for from < len(r.frames) && r.frames[from].decoded < first {
		from++
	}
	to := from
	for to < len(r.frames) && r.frames[to].decoded <= last {
		to++
	}
	chunk := r.frames[from:to]
	r.frames = r.frames[to:]
	for _, f := range chunk {
		pieces = append(pieces, f.Pieces...)
	}
	if r.mapping != nil {
		params = r.mapping.Append(nil)
	}
	return append(params, r.File.Params(chunk)...), rows.Join(pieces)
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.next == len(r.rows) {
		r.rows, r.next = r.rows[:0], 0
		most := gather
		if r.decoder == nil {
			if err := r.begin(); err != nil {
				return 0, err
			}
			if r.frame.Rows <= readAhead {
				most = readAhead
			}
		}
		if err := r.decode(most); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rows[r.next:])
	r.next += n
	return n, nil
}

// begin starts the next frame.
func (r *reader) begin() (err error) {
	if r.frame, r.decoder, err = r.Begin(); err != nil {
		if r.frame.Length > 0 {
			err = r.fail(err)
		}
		return err
	}
	r.frame.decoded = r.off
	r.Add(codec.Frame{Stored: r.frame.Offset, Decoded: r.off, DecodedEnd: r.off})
	r.frames = append(r.frames, r.frame)
	return nil
}

// decode decodes rows until there are at least most bytes or the frame ends.
func (r *reader) decode(most int) error {
	for len(r.rows) < most {
		b, err := r.decoder.Next(r.rows, codec.MaxFrame)
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		if err != nil {
			return r.fail(err)
		}
		r.off += int64(len(b) - len(r.rows))
		r.rows = b
		if r.off-r.frame.decoded > codec.MaxFrame {
			return r.fail(fmt.Errorf("its rows have more than %d bytes: %s", codec.MaxFrame, r.kind.Codec.Smaller()))
		}
		r.Last().DecodedEnd = r.off
	}
	return nil
}

// finish ends the frame, and removes it if it has no rows.
func (r *reader) finish() error {
	decoder, n := r.decoder, r.off-r.frame.decoded
	r.decoder = nil
	if n == 0 {
		r.frames = r.frames[:len(r.frames)-1]
		r.Drop()
		return nil
	}
	if err := decoder.Fits(n); err != nil {
		return r.fail(err)
	}
	r.Last().StoredEnd = r.frame.end()
	return nil
}

func (r *reader) fail(err error) error {
	return fmt.Errorf("%s at offset %d: %w", r.kind.Frame, r.frame.Offset, err)
}
