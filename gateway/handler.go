package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/sending"
)

const (
	maxURL       = 16 << 10 // a key of 4 KiB, escaped, and room
	maxGoneBody  = 64 << 10 // a body above this is called too large, not only unwanted
	maxRequestID = 128
)

// exchange is one request and its answer.
type exchange struct {
	w     *sending.Writer
	r     *http.Request // its context ends at the deadline to the first byte
	whole *http.Request // the same; its context ends when the client is gone
	id    string
	start time.Time
	route route
	log   accessLog
	span  requestSpan

	principal auth.Principal     // who asks; nobody has a name on a route that everybody may use
	account   *admission.Account // of the principal; nil: nothing limits it
	dataset   *dataset           // that the route is about; nil: about none
	leave     func()             // ends the use of the dataset
	open      bool               // everybody may have the answer
	refused   bool               // the caller may not do this
}

// handlerFunc answers an exchange or says why not. It writes nothing before it can no longer fail, and
// after the first byte it aborts instead of returning an error.
type handlerFunc func(x *exchange) error

// edge is where every request enters and leaves: id, limits, rights, deadline, errors, panics, access line, metrics.
func (g *Gateway) edge(row route) http.HandlerFunc {
	name := row.name()
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		x := &exchange{w: sending.New(w, r, start, g.pressed, &g.records), id: requestID(r), start: start, route: row}
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
		if x.leave != nil {
			x.leave()
		}
		if abort {
			panic(http.ErrAbortHandler)
		}
	}
}

// pinnedPercent of the memory budget in use, without what a cache could let go of, ends keep-alive.
const pinnedPercent = 95

// unwelcome says that clients should come back elsewhere: the gateway drains, or the next batch may find no memory.
func (g *Gateway) unwelcome() bool {
	if begun, _ := g.draining(); begun {
		return true
	}
	return g.cfg.Budget.Pinned() > g.cfg.Budget.Total()/100*pinnedPercent
}

// pressedPercent of the memory budget in use, without what a cache could let go of, makes slow readers a burden.
const pressedPercent = 75

// pressed reports whether memory is short: what slow readers hold keeps others waiting.
func (g *Gateway) pressed() bool {
	b := g.cfg.Budget
	return b.Waiting() > 0 || b.Pinned() > b.Total()/100*pressedPercent
}

// guard runs a handler, if the caller may have it, and turns a panic into an error. abort says that the connection must
// not live on.
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
	if err = g.authorize(x); err != nil { // which may open a generation, and wait for its store
		return false, err
	}
	err = x.route.handler(x)
	return err != nil && x.w.Wrote, err
}

var errAborted = errors.New("connection aborted after the first byte")

// settle answers a request that failed before its first byte. It reports whether the connection is to be aborted.
func (g *Gateway) settle(ctx context.Context, x *exchange, cause error) (abort bool) {
	if errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, os.ErrDeadlineExceeded) { // who only dawdles is still there
		x.w.Status = statusClientGone
		return true
	}
	defer func() {
		if v := recover(); v != nil { // the client left while its error was being written
			abort = true
		}
	}()
	sendProblem(x, problemOf(cause))
	return false
}

// admit refuses what no route takes, and returns the time the request has to its first byte.
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
			return 0, invalid("a %s has no body", r.Method)
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

// requestID returns the caller's request id if it is harmless, else a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID {
		return rand.Text()
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return rand.Text()
		}
	}
	if auth.Conceal(id) != id { // it stands in logs
		return rand.Text()
	}
	return id
}
