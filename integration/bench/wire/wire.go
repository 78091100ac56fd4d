package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// shape is the simulated speed of the store; zero fields set no limit.
type shape struct {
	firstByte     time.Duration
	stream, total float64 // bytes per second
}

// counts are the numbers of requests and bytes so far.
type counts struct {
	Requests int64 `json:"requests"`
	Gets     int64 `json:"gets"` // of objects
	Heads    int64 `json:"heads"`
	Lists    int64 `json:"lists"`
	Bytes    int64 `json:"bytes"` // of bodies sent to readers
}

// wire is the simulated line between readers and a store.
type wire struct {
	shape shape

	mu      sync.Mutex // guards the fields below
	counts  counts
	free    time.Time // time when the shared line has sent all its queued bytes
	after   int64     // bytes after which wire cuts a body
	answers int       // number of bodies still to cut
}

func newWire(s shape) *wire { return &wire{shape: s} }

func (w *wire) count(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Requests++
	object := strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0 // a bucket and a key
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

// wait waits until a time, and reports whether ctx lasted until then.
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

// body shapes and counts the body of one response. A body that wire cuts ends early, together with
// its connection.
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
	free time.Time       // time when this stream has sent all its queued bytes
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

// book counts n bytes and returns the time when the stream and the shared line have sent them.
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
