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

// The client probes a gateway that has sent nothing for quietTime. After mostSigns failed probes
// the gateway counts as stopped. A gateway that responds to probes has a slow store, and the client
// keeps waiting for it.
const (
	quietTime = 2 * time.Second
	signTime  = time.Second
	mostSigns = 2
)

var errNoSign = errors.New("the gateway does not respond, neither to the request nor to probes")

// try makes one attempt at a gateway. It adds the number of received bytes to came.
type try[T any] func(ctx context.Context, gw *gateway, came *atomic.Int64) (T, error)

// attempt calls ask for one gateway with a limit of Config.AttemptTimeout, and cancels it if the
// gateway stops.
func attempt[T any](ctx context.Context, c *Client, gw *gateway, ask try[T]) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	var came atomic.Int64
	ctx, done := c.watch(ctx, gw, &came)
	defer done()
	v, err := ask(ctx, gw, &came)
	if err != nil && errors.Is(context.Cause(ctx), errNoSign) {
		err = fmt.Errorf("%s: %w", gw.name(), errNoSign)
	}
	return v, err
}

// watch cancels the returned context with cause errNoSign if the gateway stops and another one is
// available. came counts the received bytes. The caller must call done at the end of the attempt.
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

// lives probes a gateway. A gateway that responds but refuses new requests is alive.
func (c *Client) lives(ctx context.Context, gw *gateway) bool {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	err := c.ready(ctx, gw)
	return err == nil || errors.Is(err, errNotReady)
}

// activityReader counts the bytes read from a body, as signs of life.
type activityReader struct {
	io.Reader
	came *atomic.Int64
}

// Read implements io.Reader.
func (r activityReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.came.Add(int64(n))
	return n, err
}
