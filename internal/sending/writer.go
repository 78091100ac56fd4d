// Package sending writes answers to sockets: samples as they lie in memory, in as few calls as can be, to a reader that is
// held to a least rate. What a body holds in memory settles while its reader is slow and memory is short.
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

// Limits on a reader that is slow. The server's own WriteTimeout is absolute and would cut good
// downloads, so a deadline is set before each write instead.
const (
	maxWrite   = 1 << 20          // bytes handed to the kernel at a time
	maxSealed  = 128 << 10        // bytes of a body for one write that cannot be interrupted, as over TLS
	recordSize = 16 << 10         // bytes that a record of TLS holds at most
	smallBody  = 4 << 10          // bytes that the server sends together with the head
	writeStall = 30 * time.Second // usual Writer.Stall
	slowAfter  = time.Second      // a body that is not sent by then settles where memory is short
	writeTotal = 10 * time.Minute // for a whole response
	floorAfter = 30 * time.Second // from here on a reader must keep up with floorBytes a second
	floorBytes = 64 << 10

	// pressedTime is how long a reader may take for a body where memory is short: other requests wait for its memory.
	pressedTime = 60 * time.Second
)

var errSlowReader = errors.New("reader is too slow")

// Writer records what is sent and holds the reader to the limits above.
type Writer struct {
	http.ResponseWriter
	First  time.Duration // from the request to the first byte of the answer
	Status int           // of the answer; 0: none was sent
	Bytes  int64         // of its body that were sent
	Wrote  bool          // the first byte is sent
	Err    error         // of the first write that failed
	Stall  time.Duration // that a reader may take without a byte sent: 30 s
	Begins func()        // called before the first byte of the answer is sent; nil: nobody is told

	control *http.ResponseController
	start   time.Time   // of the request
	began   time.Time   // of the answer, or of what of it has time of its own
	before  int64       // bytes that were sent by then
	size    int64       // of the body, or of the part of it that has time of its own; 0: not known
	pressed func() bool // memory is short
	plain   bool        // a write that was cut short by a deadline can go on: there is no TLS
	records *sync.Pool  // *[recordSize]byte, in which samples are put together for TLS
	moved   time.Time   // when the last byte was sent
	gather  func(bool)  // says whether records of TLS follow the one that is written; nil: there is no TLS
}

// New returns the writer of an answer. start is when its request came, pressed says whether memory is short, and records
// keeps memory for TLS between answers: it may be empty.
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

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status and begins the reader's time.
func (w *Writer) WriteHeader(status int) {
	if status >= 200 && !w.Wrote {
		if w.Begins != nil {
			w.Begins()
		}
		w.Wrote, w.Status, w.began = true, status, time.Now()
		w.First = w.began.Sub(w.start)
		w.size, _ = strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64) // 0 where there is none
		w.moved = w.began
		w.setDeadline(w.limit())
	}
	if status < 200 {
		w.setDeadline(time.Now().Add(w.Stall)) // a connection keeps the deadline of its last answer
	}
	w.ResponseWriter.WriteHeader(status)
}

// Renew gives the next size bytes of a long answer the time that an answer has: it comes in parts that could be answers.
func (w *Writer) Renew(size int64) { w.began, w.before, w.size = time.Now(), w.Bytes, size }

// floor is the least rate of a reader, in bytes a second.
func (w *Writer) floor() float64 {
	if !w.pressed() {
		return floorBytes
	}
	return max(floorBytes, float64(w.size)/pressedTime.Seconds())
}

// setDeadline gives the next write its time. A writer without deadlines (a recorder in memory) has no slow reader.
func (w *Writer) setDeadline(limit time.Time) {
	if err := w.control.SetWriteDeadline(limit); err != nil && !errors.Is(err, http.ErrNotSupported) && w.Err == nil {
		w.Err = fmt.Errorf("set write deadline: %w", err)
	}
}

// limit is when a write that begins now has failed.
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

// settleFunc makes what is left of a body, once so many bytes of it are sent, hold as little memory as it can. It returns
// the bytes to go on with, or nil: they are the same.
type settleFunc func(sent int64) net.Buffers

// Send writes parts one after the other, as many in one call to the kernel as one deadline is for: samples go
// from the cache to the socket as they lie, however small they are. It uses parts up. settle, if not nil, is called while
// the reader is slow and memory is short.
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

// cut returns how many of the parts are within size bytes; the last of them is shortened to fit, and rest is what
// was cut off.
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

// sendPiece writes what one deadline is for. Where it may be interrupted it returns after a while what the reader has left.
func (w *Writer) sendPiece(parts net.Buffers, interrupts bool) (left net.Buffers) {
	now := time.Now()
	if sent := now.Sub(w.began); sent > floorAfter && w.Bytes-w.before < int64(sent.Seconds()*w.floor()) {
		w.Err = errSlowReader
		return nil
	}
	limit, soon := w.limit(), now.Add(slowAfter)
	to, vectored := w.ResponseWriter.(io.ReaderFrom)
	vectored = vectored && w.plain && (len(parts) > 1 || interrupts && len(parts[0]) > smallBody)
	// An interrupted write would break the server's buffers, so nothing may lie in them.
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
	// The server hands the parts to its connection, and that to the kernel: writev.
	n, err := to.ReadFrom(&parts)
	w.Bytes += n
	if interrupts && errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			w.moved = now // or later
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

// write writes p, unless a write has failed.
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

// writeRecords writes parts so that they fill records of TLS: each write ends a record. Parts that fill records by themselves are not
// copied. Records go to the kernel together.
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

// writeWhole writes whole records, after which left bytes follow. They may wait for the last record's worth of those: the server keeps
// less than that for itself, so it has all of them sent.
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

// FlushError sends what the server still keeps for itself.
func (w *Writer) FlushError() error {
	if err := w.control.Flush(); err != nil && w.Err == nil {
		w.Err = err
	}
	return w.Err
}

// MustWrite writes all of p or aborts the connection: a response that has begun ends whole or not at all.
func (w *Writer) MustWrite(p []byte) {
	if w.Send(net.Buffers{p}, nil) != nil {
		panic(http.ErrAbortHandler)
	}
}
