package clustersim

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// stream carries one response. The reader receives the writer's data in order, after its transit
// time.
type stream struct {
	net   *network
	route route // from the responding machine to the requesting one
	room  int   // maximum bytes in transit that the reader has not read
	dead  <-chan struct{}
	late  time.Duration // additional delay beyond that of the link

	mu       sync.Mutex // guards the fields below
	changed  chan struct{}
	events   []event
	queued   int       // bytes of events that the reader has not read
	deadline time.Time // deadline of writes; zero: none
	gone     bool      // the reader has left
}

// event is one item that the reader receives.
type event struct {
	at     time.Time // time of its arrival, if the link is open then
	code   int       // status of a head, otherwise 0
	header http.Header
	data   []byte
	err    error // end of the response: io.EOF if it is complete
}

func newStream(n *network, r route, room int, dead <-chan struct{}) *stream {
	return &stream{net: n, route: r, room: room, dead: dead, changed: make(chan struct{})}
}

// wake wakes the waiting goroutines. s.mu is held.
func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// put sends one event. It waits while too many bytes are in transit.
func (s *stream) put(e event) error {
	_, l, _ := s.net.open(s.route)
	e.at = time.Now().Add(s.late + l.took(int64(len(e.data))))
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(e.data) > 0 && s.queued > 0 && s.queued+len(e.data) > s.room && !s.gone {
		changed, deadline := s.changed, s.deadline
		s.mu.Unlock()
		err := s.full(changed, deadline)
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	if s.gone {
		return syscall.EPIPE
	}
	if n := int64(len(e.data)); n > 0 && s.net.limited(s.route) {
		e.at = s.net.leave(s.route, n).Add(s.late + l.took(n))
	}
	s.events = append(s.events, e)
	s.queued += len(e.data)
	s.wake()
	return nil
}

// full waits until the reader has read data.
func (s *stream) full(changed <-chan struct{}, deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-changed:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-s.dead:
		return syscall.ECONNRESET
	}
}

// next waits for the next event.
func (s *stream) next(ctx context.Context) (event, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		ready := len(s.events) > 0
		var e event
		if ready {
			e = s.events[0]
		}
		s.mu.Unlock()
		if !ready {
			select {
			case <-changed:
				continue
			case <-s.dead:
				if s.empty() {
					e = event{at: time.Now(), err: syscall.ECONNRESET}
					if err := s.arrive(ctx, e); err != nil {
						return event{}, err
					}
					return e, nil
				}
				continue
			case <-ctx.Done():
				return event{}, ctx.Err()
			}
		}
		if err := s.arrive(ctx, e); err != nil {
			return event{}, err
		}
		s.mu.Lock()
		s.events = slices.Delete(s.events, 0, 1)
		s.queued -= len(e.data)
		s.wake()
		s.mu.Unlock()
		return e, nil
	}
}

func (s *stream) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events) == 0
}

// arrive waits until an event has arrived.
func (s *stream) arrive(ctx context.Context, e event) error {
	if err := objstore.Sleep(ctx, time.Until(e.at)); err != nil {
		return err
	}
	if n := int64(len(e.data)); n > 0 && s.net.limited(s.route) {
		if err := objstore.Sleep(ctx, time.Until(s.net.enter(s.route, n, e.at))); err != nil {
			return err
		}
	}
	_, err := s.net.wait(ctx, s.route)
	return err
}

// leave records that the reader has left.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wake()
}

// writer is the http.ResponseWriter of a stream.
type writer struct {
	s      *stream
	header http.Header
	sent   bool  // the head has been sent
	left   int64 // remaining bytes of the body; -1: length unknown
}

func (w *writer) Header() http.Header { return w.header }

// SetWriteDeadline implements the method for http.ResponseController.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.deadline = t
	w.s.wake()
	return nil
}

// SetReadDeadline implements the method for http.ResponseController. It has no effect, because the
// request has already been read.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// Flush implements http.Flusher. It has no effect, because the writer has no buffer.
func (w *writer) Flush() {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
}

func (w *writer) WriteHeader(code int) {
	if w.sent {
		return
	}
	if code >= 200 {
		w.sent, w.left = true, length(w.header)
	}
	_ = w.s.put(event{code: code, header: w.header.Clone()}) // as with a socket, the next write returns the error
}

func (w *writer) Write(b []byte) (int, error) {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	n := len(b)
	if w.left >= 0 && int64(n) > w.left {
		return 0, http.ErrContentLength
	}
	for len(b) > 0 {
		part := b[:min(len(b), w.s.room/2)]
		if err := w.s.put(event{data: slices.Clone(part)}); err != nil {
			return n - len(b), err
		}
		b = b[len(part):]
		if w.left >= 0 {
			w.left -= int64(len(part))
		}
	}
	return n, nil
}

// end ends the response after the handler has returned or panicked.
func (w *writer) end(broken bool) {
	if !broken && !w.sent {
		w.header.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
	err := io.EOF
	if broken || w.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	_ = w.s.put(event{err: err})
}
