package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A gateway from which nothing has come for quietTime is asked for a sign of life. One that owes mostSigns of them has
// stopped, while one that answers has a slow store behind it, and is waited for.
const (
	quietTime = 2 * time.Second
	signTime  = time.Second
	mostSigns = 2
)

var errNoSign = errors.New("the gateway gives no sign of life")

// attempt has ask ask one gateway, for Config.AttemptTimeout at most, and leaves a gateway that has stopped. came is to count
// what comes of the answer.
func (c *Client) attempt(ctx context.Context, gw *gateway, ask func(ctx context.Context, came *atomic.Int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	var came atomic.Int64
	ctx, done := c.watch(ctx, gw, &came)
	defer done()
	err := ask(ctx, &came)
	if err != nil && errors.Is(context.Cause(ctx), errNoSign) {
		return fmt.Errorf("%s: %w", gw.name(), errNoSign)
	}
	return err
}

// watch has an attempt end with errNoSign as its cause if its gateway stops, where there is another one to ask. came counts
// what has come of the answer. done must be called at the end of the attempt.
func (c *Client) watch(ctx context.Context, gw *gateway, came *atomic.Int64) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	if c.fleet.size() < 2 {
		return ctx, func() { end(nil) }
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTimer(quietTime)
		defer timer.Stop()
		for last, owed := came.Load(), 0; owed < mostSigns; {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			if now := came.Load(); now != last || c.lives(ctx, gw) {
				last, owed = now, 0
				timer.Reset(quietTime)
				continue
			}
			owed++
			timer.Reset(signTime / 4)
		}
		end(errNoSign)
	})
	return ctx, func() { end(nil); wg.Wait() }
}

// lives asks for a sign of life. A gateway that refuses new requests lives.
func (c *Client) lives(ctx context.Context, gw *gateway) bool {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	err := c.ready(ctx, gw)
	return err == nil || errors.Is(err, errNotReady)
}

// activityReader counts the bytes of a body. Each is a sign of life.
type activityReader struct {
	io.Reader
	came *atomic.Int64
}

// Read reads and counts.
func (r activityReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.came.Add(int64(n))
	return n, err
}
