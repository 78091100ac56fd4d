package arrowipc

import (
	"context"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// window reads mostly consecutive ranges of an object, several per request.
type window struct {
	ctx   context.Context
	in    format.Ranges
	size  int64
	start int64 // offset of the file in its object
	off   int64 // offset of the buffered bytes
	held  []byte
}

// windowSize is the number of bytes read ahead, which usually include the head of the next message.
const windowSize = 256 << 10

// bytes returns a range of the object, which is valid until the next call. It does not read
// buffered bytes again.
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
	if err := w.in.ReadRange(w.ctx, w.start+off+int64(len(b)), rest); err != nil {
		return nil, err
	}
	w.held = b[:most]
	return w.held[:n], nil
}
