// Package sending writes responses to sockets. It writes samples directly from memory, in few
// system calls, and requires a minimum rate of the reader. While a reader is slow and memory is
// short, the body releases as much of its memory as it can.
package sending

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/socket"
)

// Limits on slow readers. The server's own WriteTimeout is absolute and would cut good downloads,
// so a deadline is set before each write instead.
const (
	maxWrite   = 1 << 20          // bytes passed to the kernel in one write
	maxSealed  = 128 << 10        // the same for a body whose writes cannot be interrupted, such as over TLS
	recordSize = 16 << 10         // maximum number of bytes in a TLS record
	smallBody  = 4 << 10          // bytes that the server sends together with the header
	writeStall = 30 * time.Second // default of Writer.Stall
	slowAfter  = time.Second      // a body that takes longer releases memory if memory is short
	writeTotal = 10 * time.Minute // time limit for a whole response
	floorAfter = 30 * time.Second // time after which a reader must read floorBytes a second
	floorBytes = 64 << 10

	// pressedTime is the time limit for a body while memory is short, since other requests wait
	// for its memory.
	pressedTime = 60 * time.Second
)

var errSlowReader = errors.New("reader is too slow")

// Writer records the bytes sent and applies the limits above to the reader.
type Writer struct {
	http.ResponseWriter
	First  time.Duration // time from the request to the first byte of the response
	Status int           // of the response; 0: none was sent
	Bytes  int64         // bytes of the body sent
	Wrote  bool          // the first byte has been sent
	Err    error         // error of the first write that failed
	Stall  time.Duration // maximum time without a byte sent, default 30 s
	Begins func()        // called before the first byte of the response is sent; may be nil

	control *http.ResponseController
	start   time.Time   // start of the request
	began   time.Time   // start of the response, or of its part since Renew
	before  int64       // bytes sent before began
	size    int64       // size of the body, or of its part since Renew; 0: unknown
	pressed func() bool // reports whether memory is short
	plain   bool        // there is no TLS, so a write that a deadline interrupts can continue
	records *sync.Pool  // pool of *[recordSize]byte, in which samples are collected for TLS
	moved   time.Time   // time of the last progress
	gather  func(bool)  // sets whether more TLS records follow the next write; nil: no TLS
}

// New returns the writer of a response. start is the arrival of its request, and pressed reports
// whether memory is short. records pools memory for TLS between responses, and may be empty.
func New(w http.ResponseWriter, r *http.Request, start time.Time, pressed func() bool, records *sync.Pool) *Writer {
	out := &Writer{
		ResponseWriter: w, control: http.NewResponseController(w), start: start, pressed: pressed, plain: r.TLS == nil, records: records,
		Stall: writeStall,
	}
	if !out.plain {
		out.gather = socket.Gatherer(r.Context())
	}
	return out
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader records the status and starts the time limits.
func (w *Writer) WriteHeader(status int) {
	if status >= 200 && !w.Wrote {
		if w.Begins != nil {
			w.Begins()
		}
		w.Wrote, w.Status, w.began = true, status, time.Now()
		w.First = w.began.Sub(w.start)
		w.size, _ = strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64) // 0 if there is no valid length
		w.moved = w.began
		w.setDeadline(w.limit())
	}
	if status < 200 {
		w.setDeadline(time.Now().Add(w.Stall)) // a connection keeps the deadline of its last response
	}
	w.ResponseWriter.WriteHeader(status)
}

// Renew restarts the time limits for the next size bytes of a long response. Such a response
// consists of parts that could be responses of their own.
func (w *Writer) Renew(size int64) { w.began, w.before, w.size = time.Now(), w.Bytes, size }

// floor returns the minimum rate of a reader, in bytes a second.
func (w *Writer) floor() float64 {
	if !w.pressed() {
		return floorBytes
	}
	return max(floorBytes, float64(w.size)/pressedTime.Seconds())
}

// setDeadline sets the deadline of the next write. A writer without deadlines, such as an in-memory
// recorder, has no slow reader.
func (w *Writer) setDeadline(limit time.Time) {
	if err := w.control.SetWriteDeadline(limit); err != nil && !errors.Is(err, http.ErrNotSupported) && w.Err == nil {
		w.Err = fmt.Errorf("set write deadline: %w", err)
	}
}

// limit returns the deadline of a write that begins now.
func (w *Writer) limit() time.Time {
	stall, total := w.moved.Add(w.Stall), w.began.Add(writeTotal)
	if total.Before(stall) {
		return total
	}
	return stall
}

// Write sends p.
func (w *Writer) Write(p []byte) (int, error) {
	before := w.Bytes
	err := w.Send(net.Buffers{p}, nil)
	return int(w.Bytes - before), err
}

// settleFunc reduces the memory of the rest of a body, after sent bytes have been sent. It returns
// the slices that replace the rest, or nil to continue with the same slices.
type settleFunc func(sent int64) net.Buffers

// Send writes parts one after another, in few system calls: each deadline covers one call with as
// many parts as possible. Samples go from the cache to the socket without a copy, however small
// they are. Send consumes parts. settle, if not nil, is called while the reader is slow and memory
// is short.
func (w *Writer) Send(parts net.Buffers, settle settleFunc) error {
	if !w.Wrote {
		w.WriteHeader(http.StatusOK)
	}
	size, begin := maxWrite, w.Bytes
	if settle != nil && !w.plain {
		size = maxSealed
	}
	checked := w.began
	w.moved = time.Now()
	for len(parts) > 0 && w.Err == nil {
		if settle != nil && time.Since(checked) > slowAfter {
			checked = time.Now()
			if w.pressed() {
				if left := settle(w.Bytes - begin); left != nil {
					parts = left
				}
			}
		}
		n, rest := cut(parts, size)
		left := w.sendPiece(parts[:n], settle != nil)
		switch {
		case len(left) > 0 && len(rest) > 0:
			parts = slices.Concat(left, net.Buffers{rest}, parts[n:])
		case len(left) > 0:
			parts = slices.Concat(left, parts[n:])
		case len(rest) > 0:
			parts = parts[n-1:]
			parts[0] = rest
		default:
			parts = parts[n:]
		}
	}
	return w.Err
}

// cut returns the number of parts within size bytes. It shortens the last of them to fit, and
// returns the remainder of that part as rest.
func cut(parts net.Buffers, size int) (n int, rest []byte) {
	for i, p := range parts {
		if len(p) > size {
			parts[i], rest = p[:size], p[size:]
			return i + 1, rest
		}
		size -= len(p)
	}
	return len(parts), nil
}

// sendPiece writes the parts of one deadline. If interrupts is true, it returns after slowAfter
// with the parts that the reader has not received.
func (w *Writer) sendPiece(parts net.Buffers, interrupts bool) (left net.Buffers) {
	now := time.Now()
	if sent := now.Sub(w.began); sent > floorAfter && w.Bytes-w.before < int64(sent.Seconds()*w.floor()) {
		w.Err = errSlowReader
		return nil
	}
	limit, soon := w.limit(), now.Add(slowAfter)
	to, vectored := w.ResponseWriter.(io.ReaderFrom)
	vectored = vectored && w.plain && (len(parts) > 1 || interrupts && len(parts[0]) > smallBody)
	// An interrupted write would break the server's buffers, so they must be empty.
	if interrupts = interrupts && vectored && soon.Before(limit) && w.control.Flush() == nil; interrupts {
		limit = soon
	}
	w.setDeadline(limit)
	switch {
	case w.Err != nil:
		return nil
	case !w.plain:
		w.writeRecords(parts)
		return nil
	case !vectored:
		w.writeEach(parts)
		return nil
	}
	// The server passes the parts to its connection, which passes them to the kernel in one writev.
	n, err := to.ReadFrom(&parts)
	w.Bytes += n
	if interrupts && errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			w.moved = now // the last byte may have been sent later
		}
		return parts
	}
	w.moved, w.Err = time.Now(), err
	return nil
}

// writeEach writes parts one by one.
func (w *Writer) writeEach(parts net.Buffers) {
	for _, p := range parts {
		w.write(p)
	}
}

// write writes p unless an earlier write has failed.
func (w *Writer) write(p []byte) {
	if w.Err != nil {
		return
	}
	n, err := w.ResponseWriter.Write(p)
	if w.Bytes += int64(n); err != nil {
		w.Err = err
		return
	}
	w.moved = time.Now()
}

// writeRecords writes parts so that they fill TLS records, since each write ends a record. It
// copies only parts that do not fill records themselves. Records go to the kernel together.
func (w *Writer) writeRecords(parts net.Buffers) {
	record, _ := w.records.Get().(*[recordSize]byte)
	if record == nil {
		record = new([recordSize]byte)
	}
	defer w.records.Put(record)
	filled, left := 0, 0
	for _, p := range parts {
		left += len(p)
	}
	for _, p := range parts {
		for len(p) > 0 {
			if filled == 0 && len(p) >= recordSize {
				whole := len(p) / recordSize * recordSize
				left -= whole
				w.writeWhole(p[:whole], left)
				p = p[whole:]
				continue
			}
			n := copy(record[filled:], p)
			filled, p = filled+n, p[n:]
			if filled == recordSize {
				left -= filled
				w.writeWhole(record[:], left)
				filled = 0
			}
		}
	}
	if filled > 0 {
		w.write(record[:filled])
	}
}

// writeWhole writes whole records; left bytes follow them. The records may be gathered while
// another whole record follows. That record is larger than the server's own buffer and so reaches
// the connection. Otherwise the last record is written with gathering off, which sends all gathered
// ones.
func (w *Writer) writeWhole(p []byte, left int) {
	waiting := p
	if left < recordSize {
		waiting = p[:len(p)-recordSize]
	}
	if w.gather(true); len(waiting) > 0 {
		w.write(waiting)
	}
	if w.gather(false); len(waiting) < len(p) {
		w.write(p[len(waiting):])
	}
}

// FlushError flushes the server's own buffer.
func (w *Writer) FlushError() error {
	if err := w.control.Flush(); err != nil && w.Err == nil {
		w.Err = err
	}
	return w.Err
}

// MustWrite writes all of p or aborts the connection: a response is sent completely or ends with an
// error.
func (w *Writer) MustWrite(p []byte) {
	if w.Send(net.Buffers{p}, nil) != nil {
		panic(http.ErrAbortHandler)
	}
}
