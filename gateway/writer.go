package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Limits on a reader that is slow. The server's own WriteTimeout is absolute and would cut good
// downloads, so a deadline is set before each write instead.
const (
	maxWrite     = 1 << 20          // bytes handed to the kernel under one deadline
	writeStall   = 30 * time.Second // for one such write
	writeTotal   = 10 * time.Minute // for a whole response
	floorAfter   = 30 * time.Second // from here on a reader must keep up with floorBytes a second
	floorBytes   = 64 << 10
	gatherBelow  = 32 << 10 // mean sample length under which samples are gathered before they are written
	gatherLength = maxWrite // measured: with 64 KiB and 256 KiB the reader is woken more often, which costs more than the cache gains
	gatherSmall  = 64 << 10 // where gatherMany others have the large ones already: slow readers must not add up
	gatherMany   = 32
)

var errSlowReader = errors.New("reader is too slow")

// responseWriter records what is sent and holds the reader to the limits above.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	start   time.Time     // of the request
	first   time.Duration // from start to the first byte of the answer
	began   time.Time     // of the answer
	status  int
	bytes   int64
	wrote   bool
	err     error // the first failed write
}

func newResponseWriter(w http.ResponseWriter, start time.Time) *responseWriter {
	return &responseWriter{ResponseWriter: w, control: http.NewResponseController(w), start: start}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(status int) {
	if status >= 200 && !w.wrote {
		w.wrote, w.status, w.began = true, status, time.Now()
		w.first = w.began.Sub(w.start)
		w.setDeadline(w.began)
	}
	w.ResponseWriter.WriteHeader(status)
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
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	done := 0
	for w.err == nil {
		piece := p[done:min(len(p), done+maxWrite)]
		now := time.Now()
		if sent := now.Sub(w.began); sent > floorAfter && w.bytes < int64(sent.Seconds()*floorBytes) {
			w.err = errSlowReader
			break
		}
		w.setDeadline(now)
		n, err := w.ResponseWriter.Write(piece)
		done += n
		w.bytes += int64(n)
		if err != nil {
			w.err = err
		}
		if done == len(p) {
			break
		}
	}
	return done, w.err
}

// mustWrite writes all of p or aborts the connection: a response that has begun ends whole or not at all.
func (w *responseWriter) mustWrite(p []byte) {
	if _, err := w.Write(p); err != nil {
		panic(http.ErrAbortHandler)
	}
}
