package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// shape is the simulated speed of the store; zero fields do not limit.
type shape struct {
	firstByte     time.Duration
	stream, total float64 // bytes per second
}

// counts are the requests and bytes so far.
type counts struct {
	Requests int64 `json:"requests"`
	Gets     int64 `json:"gets"` // of objects
	Heads    int64 `json:"heads"`
	Lists    int64 `json:"lists"`
	Bytes    int64 `json:"bytes"` // of bodies sent to readers
}

// wire is the line between readers and a store.
type wire struct {
	shape shape

	mu      sync.Mutex // guards the fields below
	counts  counts
	free    time.Time // when the common line has sent all its queued bytes
	after   int64     // bytes after which a body is cut
	answers int       // bodies still to be cut
}

func newWire(s shape) *wire { return &wire{shape: s} }

func (w *wire) count(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Requests++
	object := strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0 // bucket and key
	switch {
	case r.Method == http.MethodHead:
		w.counts.Heads++
	case r.Method == http.MethodGet && object:
		w.counts.Gets++
	case r.Method == http.MethodGet:
		w.counts.Lists++
	}
}

func (w *wire) counted() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = counts{}
}

func (w *wire) cut(after int64, answers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after, w.answers = after, answers
}

// wait waits for a time and reports whether it came.
func (w *wire) wait(ctx context.Context, until time.Time) bool {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// body shapes and counts one answer. One that is to be cut ends early, and its connection with it.
func (w *wire) body(ctx context.Context, in io.ReadCloser, length int64) io.ReadCloser {
	b := &body{wire: w, ctx: ctx, ReadCloser: in, left: -1}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers > 0 && length > w.after {
		w.answers--
		b.left = w.after
	}
	return b
}

type body struct {
	io.ReadCloser
	wire *wire
	ctx  context.Context //nolint:containedctx // a body is read under the context of its request
	free time.Time       // when this stream has sent all its queued bytes
	left int64           // bytes until the cut; -1: none
}

// piece is the granularity at which streams share the line.
const piece = 64 << 10

func (b *body) Read(p []byte) (int, error) {
	p = p[:min(len(p), piece)]
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if !b.wire.wait(b.ctx, b.book(n)) {
		return n, b.ctx.Err()
	}
	return n, err
}

// book counts n bytes and returns when the stream and the common line have sent them.
func (b *body) book(n int) (until time.Time) {
	now := time.Now()
	place := func(free *time.Time, rate float64) {
		if rate <= 0 {
			return
		}
		if free.Before(now) {
			*free = now
		}
		*free = free.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if free.After(until) {
			until = *free
		}
	}
	place(&b.free, b.wire.shape.stream)
	b.wire.mu.Lock()
	defer b.wire.mu.Unlock()
	b.wire.counts.Bytes += int64(n)
	place(&b.wire.free, b.wire.shape.total)
	return until
}
