package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"
)

// wrongBodies is the number of corrupt bodies after which a request fails. If there are more
// gateways, their number is the limit.
const wrongBodies = 4

// maxRetryAfter bounds a gateway's Retry-After: a wrong value must not make a client give up early.
const maxRetryAfter = 30 * time.Second

// retry tries one gateway after another until one responds. In each round it tries every gateway
// once, without delay. It waits between rounds.
func retry[T any](ctx context.Context, c *Client, who reader, ask try[T]) (T, error) {
	var zero T
	var t tally
	renew, end := c.fleet.renewals(ctx)
	defer end()
	renew()
	for round := int64(0); ; round++ {
		all, err := c.fleet.order(ctx, who)
		t.begin(len(all))
		for _, g := range all {
			var v T
			start := time.Now()
			if v, err = attempt(ctx, c, g, ask); err == nil {
				c.fleet.answered(g)
				return v, nil
			}
			c.fleet.failed(ctx, g, err, time.Since(start))
			if ctx.Err() != nil {
				break
			}
			if t.note(err) {
				return zero, t.final(err)
			}
		}
		if c.cfg.FailRefused && t.gateways > 0 && t.refused == t.gateways {
			return zero, err
		}
		if ctx.Err() == nil {
			c.fleet.allFailed()
			renew()
		}
		if c.cfg.Retrying != nil && ctx.Err() == nil {
			c.cfg.Retrying(err)
		}
		if ctx.Err() != nil || !sleep(ctx, max(t.pause, backoff(round))) {
			return zero, giveUp(ctx, err, &t)
		}
	}
}

// tally counts the results of a request's attempts.
type tally struct {
	wrong    int
	internal int
	fault    error // last fault of all rounds, except absences and attempts that the deadline ended

	// Counters of the current round:
	gateways int
	asked    int
	refused  int           // gateways that refuse connections
	absent   int           // gateways without the requested object
	pause    time.Duration // shortest Retry-After of the round

	absence error // last response of a gateway without the requested object
}

// begin starts a round.
func (t *tally) begin(gateways int) {
	t.gateways, t.asked, t.refused, t.absent, t.pause = gateways, 0, 0, 0, 0
}

// note records the result of an attempt and reports whether it is final. A single gateway that does
// not know a dataset, generation or token is not final: during a rollout another gateway may know
// it. If no gateway knows it, the result is final.
func (t *tally) note(err error) (final bool) {
	var wait time.Duration
	var e *Error
	absent := errors.As(err, &e) && e.elsewhere()
	if !absent {
		t.fault = err
	}
	switch {
	case absent:
		if !errors.Is(t.absence, &Error{Code: CodeGenerationGone}) {
			t.absence = err // generation_gone takes precedence: its gateway has checked the store, so it is more specific than other absences
		}
		if t.absent++; t.absent == t.gateways {
			return true
		}
	case errors.As(err, &e):
		final = !e.Retryable
		if e.Code == CodeInternal {
			t.internal++
			final = t.internal > 1
		}
		wait = min(e.RetryAfter, maxRetryAfter)
	case errors.Is(err, ErrCRC), errors.Is(err, ErrProtocol):
		t.wrong++
		final = t.wrong >= max(wrongBodies, t.gateways)
	case refused(err):
		t.refused++
	} // otherwise the connection failed: reset, truncated or too slow
	if t.asked == 0 || wait < t.pause {
		t.pause = wait
	}
	t.asked++
	return final
}

// refused reports whether no gateway listens at the address: a port refuses connections or does not
// use TLS, or a Unix socket does not exist.
func refused(err error) bool {
	var dial *net.OpError
	nothing := errors.As(err, &dial) && dial.Op == "dial" && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
	return nothing || errors.Is(err, http.ErrSchemeMismatch)
}

// final returns the error to report when err ends the retries.
func (t *tally) final(err error) error {
	if t.absent == t.gateways && t.absence != nil {
		return t.absence
	}
	return err
}

// elsewhere reports whether another gateway might serve a request that this one cannot: it lacks
// the dataset, does not know a new token, or redirects.
func (e *Error) elsewhere() bool {
	return e.Status == http.StatusNotFound && e.Code != CodeEndOfEpoch || e.Status == http.StatusUnauthorized || e.Status >= 300 && e.Status < 400
}

// giveUp returns the error of an ended request. It prefers a fault that occurred to the fact that
// the deadline has passed.
func giveUp(ctx context.Context, err error, t *tally) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = ErrDeadline // the next wait would exceed the deadline
	}
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, cause)) {
		err = cmp.Or(t.fault, t.absence)
		if err == nil || errors.Is(cause, context.Canceled) {
			return cause
		}
	}
	if t.fault != nil && t.absence != nil && errors.Is(err, t.absence) {
		err = t.fault
	}
	if t.absence != nil && !errors.Is(err, t.absence) {
		return fmt.Errorf("%w: last error: %w; error of another gateway: %w", cause, err, t.absence)
	}
	return fmt.Errorf("%w: last error: %w", cause, err)
}

// backoff returns an exponential delay with full jitter, at most 5 s.
func backoff(round int64) time.Duration {
	top := 100 * time.Millisecond << min(round, 6)
	return time.Duration(rand.Int64N(int64(min(top, 5*time.Second)))) + time.Millisecond
}

func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		// A wait beyond the deadline would only hide the fault.
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
