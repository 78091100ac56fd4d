package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Limits on a reader that is slow. The server's own WriteTimeout is absolute and would cut good
// downloads, so a deadline is set before each write instead.
const (
	maxWrite   = 1 << 20          // bytes handed to the kernel under one deadline
	writeStall = 30 * time.Second // for one such write
	writeTotal = 10 * time.Minute // for a whole response
	floorAfter = 30 * time.Second // from here on a reader must keep up with floorBytes a second
	floorBytes = 64 << 10

	// pressedTime is how long a reader may take for a body where memory is short: other requests wait for its memory.
	pressedTime = 60 * time.Second
)

var errSlowReader = errors.New("reader is too slow")

// responseWriter records what is sent and holds the reader to the limits above.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	start   time.Time     // of the request
	first   time.Duration // from start to the first byte of the answer
	began   time.Time     // of the answer, or of what of it has time of its own
	before  int64         // bytes that were sent by then
	size    int64         // of the body, or of the part of it that has time of its own; 0: not known
	pressed func() bool   // memory is short
	status  int
	bytes   int64
	wrote   bool
	err     error // the first failed write
}

func newResponseWriter(w http.ResponseWriter, start time.Time, pressed func() bool) *responseWriter {
	return &responseWriter{ResponseWriter: w, control: http.NewResponseController(w), start: start, pressed: pressed}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(status int) {
	if status >= 200 && !w.wrote {
		w.wrote, w.status, w.began = true, status, time.Now()
		w.first = w.began.Sub(w.start)
		w.size, _ = strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64) // 0 where there is none
		w.setDeadline(w.began)
	}
	w.ResponseWriter.WriteHeader(status)
}

// renew gives the next size bytes of a long answer the time that an answer has: it comes in parts that could be answers.
func (w *responseWriter) renew(size int64) { w.began, w.before, w.size = time.Now(), w.bytes, size }

// floor is the least rate of a reader, in bytes a second.
func (w *responseWriter) floor() float64 {
	if !w.pressed() {
		return floorBytes
	}
	return max(floorBytes, float64(w.size)/pressedTime.Seconds())
}

// setDeadline gives the next write its time. A writer without deadlines (a recorder in memory) has no slow reader.
func (w *responseWriter) setDeadline(now time.Time) {
	limit := now.Add(writeStall)
	if end := w.began.Add(writeTotal); end.Before(limit) {
		limit = end
	}
	if err := w.control.SetWriteDeadline(limit); err != nil && !errors.Is(err, http.ErrNotSupported) && w.err == nil {
		w.err = fmt.Errorf("set write deadline: %w", err)
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	before := w.bytes
	err := w.send(net.Buffers{p})
	return int(w.bytes - before), err
}

// send writes parts one after the other, as many in one call to the kernel as one deadline is for: samples go
// from the cache to the socket as they lie, however small they are. It uses parts up.
func (w *responseWriter) send(parts net.Buffers) error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	for len(parts) > 0 && w.err == nil {
		n, rest := cut(parts)
		w.sendPiece(parts[:n])
		if len(rest) > 0 {
			n--
			parts[n] = rest
		}
		parts = parts[n:]
	}
	return w.err
}

// cut returns how many of the parts are within maxWrite bytes; the last of them is shortened to fit, and rest is what
// was cut off.
func cut(parts net.Buffers) (n int, rest []byte) {
	left := maxWrite
	for i, p := range parts {
		if len(p) > left {
			parts[i], rest = p[:left], p[left:]
			return i + 1, rest
		}
		left -= len(p)
	}
	return len(parts), nil
}

// sendPiece writes what one deadline is for.
func (w *responseWriter) sendPiece(parts net.Buffers) {
	now := time.Now()
	if sent := now.Sub(w.began); sent > floorAfter && w.bytes-w.before < int64(sent.Seconds()*w.floor()) {
		w.err = errSlowReader
		return
	}
	w.setDeadline(now)
	if w.err != nil {
		return
	}
	to, vectored := w.ResponseWriter.(io.ReaderFrom)
	if vectored && len(parts) > 1 {
		// The server hands the parts to its connection, and that to the kernel: writev.
		n, err := to.ReadFrom(&parts)
		w.bytes, w.err = w.bytes+n, err
		return
	}
	for _, p := range parts {
		n, err := w.ResponseWriter.Write(p)
		if w.bytes += int64(n); err != nil {
			w.err = err
			return
		}
	}
}

// mustSend sends all of parts or aborts the connection: a response that has begun ends whole or not at all.
func (w *responseWriter) mustSend(parts net.Buffers) {
	if w.send(parts) != nil {
		panic(http.ErrAbortHandler)
	}
}

// mustWrite is mustSend for one slice.
func (w *responseWriter) mustWrite(p []byte) { w.mustSend(net.Buffers{p}) }
