package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/sending"
)

const (
	maxURL       = 16 << 10 // for an escaped key of 4 KiB, with a reserve
	maxGoneBody  = 64 << 10 // bodies above this are reported as too large, smaller ones as unexpected
	maxRequestID = 128
)

// exchange is one request and its response.
type exchange struct {
	w     *sending.Writer
	r     *http.Request // its context ends at the deadline of the first byte
	whole *http.Request // the same request; its context ends when the client disconnects
	id    string
	start time.Time
	route route
	log   accessLog
	span  requestSpan

	principal auth.Principal     // authenticated caller; without a name on routes that require no right
	account   *admission.Account // limits of the principal; nil: none
	dataset   *dataset           // dataset of the route; nil: none
	held      plans.Holds        // resources until the end of the request, such as the dataset
	open      bool               // every caller may read the response
	refused   bool               // the caller lacks the right
}

// handlerFunc sends the response to an exchange or returns an error. It writes nothing while it can
// still fail. After the first byte it aborts instead of returning an error.
type handlerFunc func(x *exchange) error

// edge wraps every route: request ID, limits, rights, deadline, errors, panics, access log line,
// metrics.
func (g *Gateway) edge(row route) http.HandlerFunc {
	name := row.name()
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		x := &exchange{w: sending.New(w, r, start, g.pressed, &g.records), id: requestID(r), start: start, route: row, held: make(plans.Holds, 0, 8)}
		g.begin(x, r)
		g.letGo(x)
		x.w.Begins = func() { x.log.Enter(timing.Send) }
		x.w.Header().Set("X-Request-Id", x.id)
		x.w.Header().Set("X-Content-Type-Options", "nosniff")
		if g.unwelcome() {
			x.w.Header().Set("Connection", "close")
		}
		g.active.Add(1)
		defer func() {
			g.ended.Store(int64(time.Since(g.started)))
			g.active.Add(-1)
		}()
		ctx := x.whole.Context()
		abort, cause := g.guard(ctx, x)
		if cause != nil && !x.w.Wrote {
			abort = g.settle(ctx, x, cause) || abort
		}
		g.finish(x, name, cause, abort)
		x.held.Drop()
		if abort {
			panic(http.ErrAbortHandler)
		}
	}
}

// pinnedPercent is the part of the memory budget, without evictable cache, above which keep-alive
// ends.
const pinnedPercent = 95

// unwelcome reports whether clients should use another gateway: this one is draining, or there may
// be no memory for the next batch.
func (g *Gateway) unwelcome() bool {
	if begun, _ := g.draining(); begun {
		return true
	}
	return g.cfg.Budget.Pinned() > g.cfg.Budget.Total()/100*pinnedPercent
}

// pressedPercent is the part of the memory budget, without evictable cache, above which slow
// readers must release memory.
const pressedPercent = 75

// pressed reports whether memory is short, so that memory held by slow readers delays others.
func (g *Gateway) pressed() bool {
	b := g.cfg.Budget
	return b.Waiting() > 0 || b.Pinned() > b.Total()/100*pressedPercent
}

// guard admits and authorizes a request and runs its handler. It converts a panic into an error.
// abort means that the connection must be closed.
func (g *Gateway) guard(ctx context.Context, x *exchange) (abort bool, cause error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			abort, cause = true, errors.Join(errAborted, x.w.Err)
			return
		}
		g.metrics.panics.Inc()
		x.log.stack = string(debug.Stack())
		abort, cause = x.w.Wrote, fmt.Errorf("panic: %v", v)
	}()
	limit, err := g.admit(x)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	x.r = x.r.WithContext(ctx)
	if err = g.authorize(x); err != nil { // may open a generation and wait for its store
		return false, err
	}
	err = x.route.handler(x)
	return err != nil && x.w.Wrote, err
}

var errAborted = errors.New("connection aborted after the first byte")

// settle sends the error of a request that failed before its first byte, and reports whether to
// abort the connection.
func (g *Gateway) settle(ctx context.Context, x *exchange, cause error) (abort bool) {
	// a client that exceeded a read deadline is still connected
	if errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, os.ErrDeadlineExceeded) {
		x.w.Status = statusClientGone
		return true
	}
	defer func() {
		if v := recover(); v != nil { // the client disconnected while the error was being written
			abort = true
		}
	}()
	sendProblem(x, problemOf(cause))
	return false
}

// admit rejects malformed requests and returns the time limit to the first byte.
func (g *Gateway) admit(x *exchange) (time.Duration, error) {
	r, body := x.r, x.route.body
	endFraming(x)
	if err := checkTarget(r); err != nil {
		return 0, err
	}
	if r.ContentLength > body || r.ContentLength != 0 && body == 0 {
		x.w.Header().Set("Connection", "close")
		if limit := max(body, maxGoneBody); r.ContentLength > limit {
			return 0, tooLong(limit)
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return 0, invalid("%s requests have no body", r.Method)
		}
	}
	if len(r.RequestURI) > maxURL {
		return 0, &problem{Code: codeURITooLong, Detail: fmt.Sprintf("the URL is longer than %d bytes", maxURL)}
	}
	values := r.Header.Values("Millrace-Deadline-Ms")
	if len(values) == 0 {
		return g.cfg.FirstByteTimeout, nil
	}
	ms, reason := address.ParseDecimal(values[0])
	if len(values) > 1 || reason != "" || ms == 0 {
		return 0, invalid("Millrace-Deadline-Ms: must be one unsigned decimal number above 0")
	}
	if ms >= uint64(g.cfg.FirstByteTimeout.Milliseconds()) {
		return g.cfg.FirstByteTimeout, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// requestID returns the caller's request ID if it is safe to log, otherwise a new one.
func requestID(r *http.Request) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID || strings.Trim(id, safe) != "" || auth.Conceal(id) != id { // the last contains a secret
		return rand.Text()
	}
	return id
}
