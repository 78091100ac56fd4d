package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Gateways are measured by small requests beside the batches: no batch is asked for twice to learn who is near.
const (
	probeEvery = time.Minute
	probeTime  = 250 * time.Millisecond
	probeGrace = 20 * time.Millisecond // for the others after the first answer, or four times what that took
)

// Another gateway becomes the first choice if it answers in less than nearShare of the time, and nearGain sooner: a job does
// not change for less.
const (
	nearShare = 0.7
	nearGain  = 500 * time.Microsecond
)

// compareNear sorts what is not known to the end.
func compareNear(a, b time.Duration) int {
	if (a == 0) != (b == 0) {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// enter waits until nobody else looks up or measures. Whoever does not have to wait gets false if somebody does.
func (f *fleet) enter(ctx context.Context, wait bool) bool {
	if !wait {
		select {
		case f.asking <- struct{}{}:
			return true
		default:
			return false
		}
	}
	select {
	case f.asking <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fleet) leave() { <-f.asking }

// measure asks all gateways how far they are, if it was long ago, and chooses the first.
func (f *fleet) measure(ctx context.Context) {
	all, never := f.unmeasured()
	if all == nil || !f.enter(ctx, never) {
		return
	}
	defer f.leave()
	if all, _ = f.unmeasured(); all == nil {
		return
	}
	probing, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var wg sync.WaitGroup
	var first sync.Once
	grace := time.AfterFunc(probeTime, cancel)
	defer grace.Stop()
	for _, g := range all {
		wg.Go(func() {
			start := time.Now()
			err := f.ask(probing, g)
			switch took := time.Since(start); {
			case err == nil:
				first.Do(func() { grace.Reset(max(probeGrace, 4*took)) })
				f.rested(g)
			case probing.Err() == nil:
				f.settle(g, err)
			case ctx.Err() == nil:
				f.note(g, took) // at least
			}
		})
	}
	wg.Wait()
	f.choose()
}

// unmeasured returns the gateways if they should be measured now, and whether they never were.
func (f *fleet) unmeasured() (all []*gateway, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.home != nil || len(f.gateways) < 2 || !f.measured.IsZero() && time.Since(f.measured) < probeEvery {
		return nil, false
	}
	return f.gateways, f.measured.IsZero()
}

// ask probes one gateway and notes how long its answer took.
func (f *fleet) ask(ctx context.Context, g *gateway) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	start := time.Now()
	if err := f.probe(ctx, g); err != nil {
		return err
	}
	f.note(g, time.Since(start))
	return nil
}

// note notes how long a probe took.
func (f *fleet) note(g *gateway, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took = max(took, 1)
	if g.near > 0 {
		took = (g.near + took) / 2
	}
	g.near = took
}

// rested takes a gateway back whose time is over. The others answer probes too, and rest on.
func (f *fleet) rested(g *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(g.until) {
		g.until = time.Time{}
	}
}

// settle notes how a probe ended.
func (f *fleet) settle(g *gateway, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.until = (time.Time{}); err != nil {
		f.passOver(g, 0, 0)
	}
}

// choose makes the near gateway the first one.
func (f *fleet) choose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measured = time.Now().Add(-rand.N(probeEvery / 2)) // so that clients that began together do not move together
	old := f.first
	if old == nil || !old.well() {
		i := slices.IndexFunc(f.gateways, (*gateway).well)
		if i < 0 {
			return
		}
		old = f.gateways[i]
	}
	f.first = old
	for _, g := range f.gateways {
		if g.well() && compareNear(g.near, f.first.near) < 0 {
			f.first = g
		}
	}
	if !nearer(f.first.near, old.near) {
		f.first = old
	}
}

// nearer says whether a is so much less than b that it is worth a change. What is not known is far.
func nearer(a, b time.Duration) bool {
	if a == 0 || b == 0 {
		return a != 0
	}
	return a < time.Duration(nearShare*float64(b)) && b-a > nearGain
}

// errNotReady is a gateway's word that requests should go elsewhere.
var errNotReady = errors.New("the gateway is not ready")

// ready asks a gateway whether it takes requests.
func (c *Client) ready(ctx context.Context, g *gateway) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base.String()+"/readyz", nil)
	if err != nil {
		return err
	}
	req.Host = g.host
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection is kept
	if resp.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("%s: %w", g.name(), errNotReady)
	}
	return nil
}
