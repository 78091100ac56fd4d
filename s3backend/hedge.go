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

// hedger measures the recent times to the beginning of answers. From these it computes when an
// answer is so late that a second request for the same bytes will probably be answered sooner.
type hedger struct {
	credit tokenBucket  // of second requests
	late   atomic.Int64 // 99th percentile of the recent times, in nanoseconds; zero while there are too few

	mu     sync.Mutex
	recent [512]time.Duration // a ring
	n      int                // number of answers
}

const (
	hedgeShare = 0.01                  // maximum share of second requests
	hedgeBurst = 10                    // maximum burst of second requests
	hedgeFloor = 10 * time.Millisecond // minimum of hedger.late: a second request to a faster store is not worthwhile
	hedgeLearn = 256                   // answers before late is set
	hedgeEvery = 64                    // answers between two updates of hedger.late
)

// saw records how long an answer took to begin.
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

// lateness returns how long to wait for an answer before a second request; zero: send none.
func (h *hedger) lateness() time.Duration { return time.Duration(h.late.Load()) }

// mayHedge takes the cost of a second request: a free place, a hundredth of a request's credit, and
// a retry of the budget. It returns false while the breaker is open.
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

// hedgeResult is the answer or error of one of two requests.
type hedgeResult struct {
	answer
	err error
}

var (
	errOutrun   = errors.New("the other request was answered first")
	errNotAsked = errors.New("no second request")
)

// hedged is get, with a second request if the answer to the first is late. The first good answer
// wins, and the other request is canceled. Both have ended on return.
func (b *Backend) hedged(ctx context.Context, ref objstore.Ref, from, n int64) (answer, error) {
	start, late := time.Now(), b.hedges.lateness()
	var won atomic.Bool
	var race [2]struct { // contexts end with the attempt, not here, since the winner's body is read under its own
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
			b.concurrency.release() // before the caller gets the answer, so that nothing of this request remains then
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
