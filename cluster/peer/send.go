package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	maxPiece    = 1 << 20  // bytes handed to the kernel under one deadline
	gatherBytes = 64 << 10 // of small samples put together

	// A shorter sample is copied next to its neighbours. In plain text that is cheaper than a slice
	// of its own for the kernel only below 4 KiB. Under TLS each slice is a call and a record of
	// its own, of at most 16 KiB, so longer samples pay too.
	smallBytes  = 4 << 10
	smallSecret = 32 << 10
)

// errSegments says that a holder has answered something else than it was asked.
var errSegments = errors.New("the answer does not fit the question")

// fits returns how many bytes the segments hold, if they are those that q asks for.
func (q *Query) fits(segments [][]byte) (total int64, err error) {
	i := 0
	for _, c := range q.Chunks {
		for _, r := range c.Ranges {
			if i == len(segments) || len(segments[i]) != int(r.Length) {
				return 0, fmt.Errorf("range %d of chunk %d: %w", i, c.Chunk, errSegments)
			}
			total += int64(r.Length)
			i++
		}
	}
	if i != len(segments) {
		return 0, fmt.Errorf("%d segments for %d ranges: %w", len(segments), i, errSegments)
	}
	return total, nil
}

// gather returns room for small samples, to be given back to s.scratch.
func (s *Server) gather() *[]byte {
	if room, ok := s.scratch.Get().(*[]byte); ok {
		return room
	}
	room := make([]byte, 0, gatherBytes)
	return &room
}

// writer is one answer.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	stall    time.Duration // for each piece
	vectored io.ReaderFrom // takes slices as they lie; nil where they are encrypted first
	small    int           // bytes below which samples are put together
	signs    bool          // the asker understands informational statuses
	began    bool          // the answer proper
}

func newWriter(w http.ResponseWriter, r *http.Request, stall time.Duration) *writer {
	out := &writer{ResponseWriter: w, control: http.NewResponseController(w), stall: stall, signs: r.ProtoAtLeast(1, 1), small: smallSecret}
	if r.TLS == nil {
		out.vectored, _ = w.(io.ReaderFrom)
		out.small = smallBytes
	}
	return out
}

// extend gives the next write its time: a connection keeps the deadline of its last one.
func (w *writer) extend() error {
	err := w.control.SetWriteDeadline(time.Now().Add(w.stall))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // a writer in memory, which has no slow reader
	}
	return err
}

// sign tells the asker that its answer is being brought.
func (w *writer) sign() {
	if !w.signs {
		return
	}
	if w.extend() == nil {
		w.WriteHeader(http.StatusProcessing)
	}
}

// refuse answers with a problem (RFC 9457).
func (w *writer) refuse(r *Refused) {
	text, err := json.Marshal(map[string]any{
		"type": "urn:millrace:error:" + r.Code, "title": http.StatusText(r.Status), "status": r.Status,
		"detail": r.Detail, "code": r.Code,
	})
	if err != nil {
		panic(fmt.Sprintf("peer: problem is not JSON: %v", err))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.brief(r.Status, contentProblem, text)
}

// brief answers with a few bytes.
func (w *writer) brief(status int, content string, text []byte) {
	w.begin(status, content, int64(len(text)))
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (w *writer) begin(status int, content string, length int64) {
	h := w.Header()
	h.Set("Content-Type", content)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	if w.extend() != nil {
		panic(http.ErrAbortHandler)
	}
	w.began = true
	w.WriteHeader(status)
}

// answer sends segments one after the other: large ones go from the cache to the socket as they
// lie, small ones are put together in scratch. It sends all of them or breaks the connection.
func (w *writer) answer(segments [][]byte, total int64, scratch []byte) {
	w.begin(http.StatusOK, contentBytes, total)
	var parts net.Buffers
	scratch = scratch[:0]
	bytes, run := 0, -1 // run: where in scratch the last part begins, if that is a gathered one
	flush := func() {
		w.piece(parts, bytes)
		parts, scratch, bytes, run = parts[:0], scratch[:0], 0, -1
	}
	for _, s := range segments {
		if len(s) == 0 {
			continue
		}
		if len(s) < w.small {
			if len(scratch)+len(s) > cap(scratch) {
				flush()
			}
			if run < 0 {
				run = len(scratch)
				parts = append(parts, nil)
			}
			scratch = append(scratch, s...)
			parts[len(parts)-1] = scratch[run:]
			if bytes += len(s); bytes >= maxPiece {
				flush()
			}
			continue
		}
		for len(s) > 0 {
			n := min(len(s), maxPiece-bytes)
			parts, s, run = append(parts, s[:n]), s[n:], -1
			if bytes += n; bytes == maxPiece {
				flush()
			}
		}
	}
	if bytes > 0 {
		flush()
	}
}

// piece writes what one deadline is for.
func (w *writer) piece(parts net.Buffers, bytes int) {
	err := w.extend()
	var sent int64
	if err == nil && w.vectored != nil && len(parts) > 1 {
		// The server hands the parts to its connection, and that to the kernel: writev. They are
		// used up by it.
		used := parts
		sent, err = w.vectored.ReadFrom(&used)
	} else {
		for _, p := range parts {
			if err != nil {
				break
			}
			var n int
			n, err = w.Write(p)
			sent += int64(n)
		}
	}
	if err != nil || sent != int64(bytes) {
		panic(http.ErrAbortHandler)
	}
}
