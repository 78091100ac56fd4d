package rowscan

import (
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// File is a file whose frames are decoded one after another. A frame is decoded in one piece: a row group, a record batch.
type File interface {
	// Begin reads the next frame and begins decoding it. It returns io.EOF after the last one. An error in a frame comes with the frame's
	// place.
	Begin() (Frame, Decoder, error)
	// Params returns the parameters of a chunk of frames that follow each other.
	Params(frames []Frame) []byte
	// Close gives back the decoder.
	Close() error
}

// Frame is where a frame is stored, and what its file says of it.
type Frame struct {
	Offset, Length int64
	Pieces         []rows.Range // what is read of it, of Length bytes, where columns are left out; nil: one range
	Rows           int64        // bytes that its rows have, at about; 0: not known
	Params         []byte       // of this frame, where the format has such

	decoded int64 // where its rows begin
}

// end returns where the last byte ends that is read of the frame.
func (f *Frame) end() int64 {
	if n := len(f.Pieces); n > 0 {
		return f.Pieces[n-1].End()
	}
	return f.Offset + f.Length
}

// Decoder gives the rows of a frame.
type Decoder interface {
	// Next appends the next row to dst, which must not become longer than limit. It returns io.EOF after the last row.
	Next(dst []byte, limit int64) ([]byte, error)
	// Fits refuses a frame, whose rows have all been read and are so many bytes, that takes more memory to decode than is reserved for it.
	Fits(decoded int64) error
}

// readAhead bounds the rows of a frame that are decoded before the first of them is given out. If the whole frame is shorter, its length
// is known by then, and it may join the frames before it in a chunk. A longer frame begins a chunk.
const readAhead = 64 << 20

// gather is how many bytes of rows are decoded at once of a longer frame.
const gather = 1 << 20

// reader gives the rows of a file, a frame after another.
type reader struct {
	File
	kind    Kind
	frame   Frame   // at hand
	decoder Decoder // of rows that are still to come; nil: the frame has ended
	off     int64   // of the rows that were decoded
	rows    []byte
	next    int // those before it were given out

	codec.FrameList
	frames []Frame // that no chunk has yet
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
	return r.File.Params(chunk), rows.Join(pieces)
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

// begin begins the next frame.
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

// decode decodes rows until there are at least so many bytes, or the frame ends.
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

// finish ends the frame. One without a row is left out.
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
