package clustersim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// dialTime is the timeout for connecting to a gateway.
const dialTime = 250 * time.Millisecond

// wire is the http.RoundTripper of one process. It uses the simulated network instead of sockets.
type wire struct {
	from  *process
	peers func(address string) *machine

	mu   sync.Mutex // guards open
	open map[*process]bool
}

type askerKey struct{}

// asker is the process that sent a request, and the time of the request.
type asker struct {
	process *process
	at      time.Time
}

// askedBy returns the asker of a request, within its handler.
func askedBy(ctx context.Context) (asker, bool) {
	a, ok := ctx.Value(askerKey{}).(asker)
	return a, ok
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	var question []byte
	if req.Body != nil {
		var err error
		question, err = io.ReadAll(req.Body)
		_ = req.Body.Close() // the body has been read
		if err != nil {
			return nil, err
		}
	}
	ctx, by := req.Context(), asker{w.from, time.Now()}
	to := w.peers(req.URL.Host)
	if to == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("no such host %s", req.URL.Host)}
	}
	there, err := w.connect(ctx, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	out := route{w.from.machine.number, to.number}
	if err := w.from.net.pass(ctx, out, int64(len(question))); err != nil {
		return nil, err
	}
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	s := newStream(w.from.net, route{to.number, w.from.machine.number}, w.from.machine.run.history.Room, there.dead)
	s.late = to.lies.lateness()
	serving, stop := context.WithCancel(context.WithValue(there.ctx, askerKey{}, by))
	asked := req.Clone(serving)
	asked.RequestURI, asked.RemoteAddr = req.URL.RequestURI(), w.from.machine.address
	asked.Host, asked.Body = req.URL.Host, io.NopCloser(bytes.NewReader(question))
	asked.ContentLength = int64(len(question))
	if !there.spawn(func() { serve(there.handler(), &writer{s: s, header: http.Header{}, left: -1}, asked) }) {
		stop()
		w.forget(there)
		return nil, syscall.ECONNRESET
	}
	resp, err := w.answer(req, s, func() { w.hangUp(out, stop) })
	if err == nil {
		to.lies.mangle(resp)
	}
	return resp, err
}

// connect returns the process that listens on a machine.
func (w *wire) connect(ctx context.Context, to *machine) (*process, error) {
	there := to.now()
	w.mu.Lock()
	known := there != nil && w.open[there]
	w.mu.Unlock()
	if known {
		return there, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, syscall.ETIMEDOUT)
	defer cancel()
	for _, r := range []route{{w.from.machine.number, to.number}, {to.number, w.from.machine.number}} {
		if err := w.from.net.dial(ctx, r); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	if there = to.now(); there == nil {
		if to.silent() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, syscall.ECONNREFUSED
	}
	w.mu.Lock()
	w.open[there] = true
	w.mu.Unlock()
	return there, nil
}

func (w *wire) forget(p *process) {
	w.mu.Lock()
	delete(w.open, p)
	w.mu.Unlock()
}

// hangUp tells the responding machine that the requester has left, as soon as the link is open.
func (w *wire) hangUp(out route, stop func()) {
	if open, _, _ := w.from.net.open(out); open {
		stop()
		return
	}
	if !w.from.spawn(func() {
		_, _ = w.from.net.wait(w.from.ctx, out) // when this process ends, the responding machine also learns it
		stop()
	}) {
		stop()
	}
}

// serve runs a handler like net/http.
func serve(h http.Handler, w *writer, req *http.Request) {
	broken := true
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(r)
			}
		}
		w.end(broken)
	}()
	h.ServeHTTP(w, req)
	broken = false
}

// answer waits for the head of a response.
func (w *wire) answer(req *http.Request, s *stream, hangUp func()) (*http.Response, error) {
	for {
		e, err := s.next(req.Context())
		if err == nil && e.err != nil {
			err = e.err
		}
		if err != nil {
			s.leave()
			hangUp()
			return nil, err
		}
		if e.code >= 200 {
			resp := &http.Response{
				Status: strconv.Itoa(e.code) + " " + http.StatusText(e.code), StatusCode: e.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: e.header, ContentLength: length(e.header), Request: req,
			}
			resp.Header.Set("Date", time.Now().Add(w.from.machine.clock).UTC().Format(http.TimeFormat))
			resp.Body = &answerBody{ctx: req.Context(), s: s, left: resp.ContentLength, hangUp: hangUp}
			return resp, nil
		}
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(e.code, textproto.MIMEHeader(e.header)); err != nil {
				s.leave()
				hangUp()
				return nil, err
			}
		}
	}
}

func length(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// answerBody is the body of a response for the requester.
type answerBody struct {
	ctx    context.Context //nolint:containedctx // a body is read under the context of its request
	s      *stream
	left   int64 // -1: unknown
	data   []byte
	err    error
	hangUp func()
	once   sync.Once
}

func (b *answerBody) Read(p []byte) (int, error) {
	for len(b.data) == 0 && b.err == nil {
		e, err := b.s.next(b.ctx)
		switch {
		case err != nil:
			b.err = err
		case errors.Is(e.err, io.EOF) && b.left > 0:
			b.err = io.ErrUnexpectedEOF
		case e.err != nil:
			b.err = e.err
		default:
			b.data = e.data
		}
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	if b.left >= 0 {
		b.left -= int64(n)
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, b.err
}

func (b *answerBody) Close() error {
	b.once.Do(func() {
		b.s.leave()
		b.hangUp()
	})
	return nil
}
