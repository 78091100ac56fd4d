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

// hedger knows how long the store lately took to begin its answers, and so when one is
// late enough that a second request for the same bytes will probably be answered sooner.
type hedger struct {
	credit tokenBucket  // of second requests
	late   atomic.Int64 // nanoseconds within which 99 of 100 answers came; zero while too few were seen

	mu     sync.Mutex
	recent [512]time.Duration // a ring
	n      int                // answers seen
}

const (
	hedgeShare = 0.01                  // of the requests may be second ones
	hedgeBurst = 10                    // of them at most together
	hedgeFloor = 10 * time.Millisecond // a store that is quicker is not worth asking twice
	hedgeLearn = 256                   // answers before late means anything
	hedgeEvery = 64                    // answers between two reckonings
)

// saw notes an answer and how long it took to begin.
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

// lateness returns how long to wait for an answer before a second request, zero for ever.
func (h *hedger) lateness() time.Duration { return time.Duration(h.late.Load()) }

// mayHedge takes what a second request costs: a free place among those under way, a
// hundredth of the requests, and a retry of the budget. It is not for a store that is down.
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

// hedged is get, with a second request when the answer to the first is late. Whichever is
// answered well first wins, the other is ended, and both have come to their end on return.
func (b *Backend) hedged(ctx context.Context, ref objstore.Ref, from, n int64) (answer, error) {
	start, late := time.Now(), b.hedges.lateness()
	var won atomic.Bool
	var race [2]struct { // contexts end with the attempt, not here: the winner's body is read under its own
		ctx context.Context //nolint:containedctx // of this call
		end context.CancelCauseFunc
	}
	for i := range race {
		race[i].ctx, race[i].end = context.WithCancelCause(ctx) //nolint:fatcontext // each has one of its own
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
			b.concurrency.release() // before the caller hears of the reply: then nothing of this request is left
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
