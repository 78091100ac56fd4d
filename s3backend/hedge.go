package s3backend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tracing"
)

// hedger measures the recent times until responses begin. From these it computes after which time a
// response is so late that a second request for the same bytes will probably get a response sooner.
type hedger struct {
	credit tokenBucket  // credit for second requests
	late   atomic.Int64 // 99th percentile of the recent times, in nanoseconds; zero while there are too few

	mu     sync.Mutex
	recent [512]time.Duration // a ring
	n      int                // number of responses so far
}

const (
	hedgeShare = 0.01                  // maximum share of second requests among all requests
	hedgeBurst = 10                    // maximum burst of second requests
	hedgeFloor = 10 * time.Millisecond // minimum of hedger.late: for a faster store a second request is not worthwhile
	hedgeLearn = 256                   // number of responses before late is set
	hedgeEvery = 64                    // number of responses between two updates of hedger.late
)

// saw records the time until a response began.
func (h *hedger) saw(took time.Duration) {
	h.credit.earn()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent[h.n%len(h.recent)] = took
	h.n++
	if h.n >= hedgeLearn && h.n%hedgeEvery == 0 {
		sorted := slices.Clone(h.recent[:min(h.n, len(h.recent))])
		slices.Sort(sorted)
		h.late.Store(int64(max(sorted[len(sorted)*99/100], hedgeFloor)))
	}
}

// lateness returns the time to wait for a response before sending a second request. Zero means that
// none is sent.
func (h *hedger) lateness() time.Duration { return time.Duration(h.late.Load()) }

// mayHedge takes a free place, one token of credit and a retry of the budget for a second request.
// It returns false if one of them is not available, or while the breaker is open.
func (b *Backend) mayHedge() bool {
	if !b.concurrency.try() {
		return false
	}
	if b.breaker.isOpen() || !b.hedges.credit.spend() || !b.retries.spend() {
		b.concurrency.release()
		return false
	}
	b.count(func(s *Stats) { s.Requests++; s.Hedges++ })
	return true
}

// hedgeResult is the response or error of one of two requests.
type hedgeResult struct {
	answer
	err error
}

var (
	errOutrun   = errors.New("the other request was answered first")
	errNotAsked = errors.New("no second request")
)

// hedged is like get, but sends a second request if the response to the first is late. The first
// good response wins, and the other request is canceled. Both requests have ended on return.
func (b *Backend) hedged(ctx context.Context, ref objstore.Ref, from, n int64) (answer, error) {
	start, late := time.Now(), b.hedges.lateness()
	var won atomic.Bool
	var race [2]struct { // the contexts end with the attempt, not here, since the body of the winner is read under its own context
		ctx context.Context //nolint:containedctx // of this call
		end context.CancelCauseFunc
	}
	for i := range race {
		race[i].ctx, race[i].end = context.WithCancelCause(ctx) //nolint:fatcontext // each has its own
	}
	ask := func(i int) (r hedgeResult) {
		r.answer, r.err = b.get(race[i].ctx, ref, from, n)
		switch {
		case r.err != nil:
			r.err = settle(ctx, race[i].ctx, r.err)
		case won.CompareAndSwap(false, true):
			race[1-i].end(errOutrun)
			b.hedges.saw(time.Since(start))
		default:
			r.body.Close()
			r.err = errOutrun
		}
		return r
	}
	second := make(chan hedgeResult, 1)
	var timer *time.Timer
	if late > 0 {
		timer = time.AfterFunc(late, func() {
			if !b.mayHedge() {
				second <- hedgeResult{err: errNotAsked}
				return
			}
			var span tracing.Span
			race[1].ctx, span = tracing.Call(race[1].ctx, "store hedge") //nolint:fatcontext // once
			r := ask(1)
			span.Ended(r.err)
			if errors.Is(r.err, objstore.ErrThrottled) {
				b.concurrency.slower()
			}
			b.concurrency.release() // before the caller gets the response, so that nothing of this request remains then
			second <- r
		})
	}
	r := ask(0)
	if timer != nil && !timer.Stop() {
		if other := <-second; other.err == nil {
			r = other
		}
	}
	return r.answer, r.err
}
