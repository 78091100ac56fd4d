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

// wrongBodies is how often a body may arrive damaged before that is the answer, where there
// are no more gateways than that.
const wrongBodies = 4

// maxRetryAfter bounds what a gateway may ask for: a value that is out of order must not
// make a client give up that has time left.
const maxRetryAfter = 30 * time.Second

// retry asks one gateway after another until one answers. It tries at once while there is a
// gateway that has not been asked in this round, and waits between rounds.
func retry[T any](ctx context.Context, c *Client, who reader, try func(context.Context, *gateway) (T, error)) (T, error) {
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
			if v, err = try(ctx, g); err == nil {
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

// tally is what the gateways have answered.
type tally struct {
	wrong    int
	internal int
	fault    error // the last one, of all rounds, but for absence; an attempt that the deadline ended is none

	// Of the present round:
	gateways int
	asked    int
	refused  int           // gateways where nothing listens
	absent   int           // gateways that do not know what was asked for
	pause    time.Duration // the shortest wait that any gateway asked for

	absence error // the last answer of a gateway that did not know
}

// begin begins a round of so many gateways.
func (t *tally) begin(gateways int) {
	t.gateways, t.asked, t.refused, t.absent, t.pause = gateways, 0, 0, 0, 0
}

// note takes the answer of a gateway and says whether it is final. That one gateway does
// not know a dataset, a generation or a token is not: in the middle of an update, or with a
// list that is out of step, another may know it. That none knows it is.
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
			t.absence = err // to look for a generation in the store and not find it says more than not to know it
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
	} // else the connection: reset, ended early, too slow
	if t.asked == 0 || wait < t.pause {
		t.pause = wait
	}
	t.asked++
	return final
}

// refused reports whether nothing listens at the address: a port refuses the connection or speaks no TLS, or a Unix socket does not exist.
func refused(err error) bool {
	var dial *net.OpError
	nothing := errors.As(err, &dial) && dial.Op == "dial" && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
	return nothing || errors.Is(err, http.ErrSchemeMismatch)
}

// final is the answer where err was the last one and ends the asking.
func (t *tally) final(err error) error {
	if t.absent == t.gateways && t.absence != nil {
		return t.absence
	}
	return err
}

// elsewhere reports whether this gateway, or what stands in its place, cannot answer while another might: it lacks the
// dataset, does not know a new token yet, or points away.
func (e *Error) elsewhere() bool {
	return e.Status == http.StatusNotFound && e.Code != CodeEndOfEpoch || e.Status == http.StatusUnauthorized || e.Status >= 300 && e.Status < 400
}

// giveUp prefers the faults that were met over the bare fact that time is over.
func giveUp(ctx context.Context, err error, t *tally) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = ErrDeadline // the next wait would have passed it
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
		return fmt.Errorf("%w: last fault: %w; another gateway: %w", cause, err, t.absence)
	}
	return fmt.Errorf("%w: last fault: %w", cause, err)
}

// backoff is exponential with full jitter, between 0 and at most 5 s.
func backoff(round int64) time.Duration {
	top := 100 * time.Millisecond << min(round, 6)
	return time.Duration(rand.Int64N(int64(min(top, 5*time.Second)))) + time.Millisecond
}

func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		// Waiting longer than there is time would only hide the fault.
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
