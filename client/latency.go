package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Small probes measure the latency of gateways. The client never requests a batch twice to measure
// latency.
const (
	probeEvery = time.Minute
	probeTime  = 250 * time.Millisecond
	// probeGrace is the minimum wait for the other gateways after the first response. The wait
	// is four times as long as that response took, if that is longer.
	probeGrace = 20 * time.Millisecond
)

// A gateway becomes the preferred one only if its latency is lower than nearShare times the current
// one's, and lower by at least nearGain. Smaller differences do not justify a change.
const (
	nearShare = 0.7
	nearGain  = 500 * time.Microsecond
)

// distance returns a latency for comparisons: an unknown one (0) is longer than any other.
func distance(near time.Duration) time.Duration { return cmp.Or(near, math.MaxInt64) }

// compareNear orders latencies; unknown ones are last.
func compareNear(a, b time.Duration) int { return cmp.Compare(distance(a), distance(b)) }

// enter acquires the right to look up names or measure latency. With wait it blocks until ctx ends;
// without, it returns false if another caller has the right.
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

// measure probes all gateways if the last measurement is old, and selects the preferred one.
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
				f.note(g, took) // a lower bound: the probe was cut off
			}
		})
	}
	wg.Wait()
	f.choose()
}

// unmeasured returns the gateways if a measurement is due, and whether there was none before.
func (f *fleet) unmeasured() (all []*gateway, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.home != nil || len(f.gateways) < 2 || !f.measured.IsZero() && time.Since(f.measured) < probeEvery {
		return nil, false
	}
	return f.gateways, f.measured.IsZero()
}

// ask probes a gateway and records its latency.
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

// note averages the latency of a probe with the previous average.
func (f *fleet) note(g *gateway, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took = max(took, 1)
	if g.near > 0 {
		took = (g.near + took) / 2
	}
	g.near = took
}

// rested ends the avoidance of a gateway whose cooldown has passed. A gateway within its cooldown
// may respond to probes, but stays avoided.
func (f *fleet) rested(g *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(g.until) {
		g.until = time.Time{}
	}
}

// settle ends the avoidance of a gateway after a successful probe, or renews it after a failed one.
func (f *fleet) settle(g *gateway, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.until = (time.Time{}); err != nil {
		f.passOver(g, 0, 0)
	}
}

// choose selects the preferred gateway by latency.
func (f *fleet) choose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measured = time.Now().Add(-rand.N(probeEvery / 2)) // jitter: clients that started together change gateways at different times
	well := slices.DeleteFunc(slices.Clone(f.gateways), func(g *gateway) bool { return !g.well() })
	if len(well) == 0 {
		return
	}
	best := slices.MinFunc(well, func(a, b *gateway) int { return compareNear(a.near, b.near) })
	if f.first == nil || !f.first.well() {
		f.first = well[0]
	}
	if nearer(best.near, f.first.near) {
		f.first = best
	}
}

// nearer reports whether latency a is enough below b to justify a change.
func nearer(a, b time.Duration) bool {
	a, b = distance(a), distance(b)
	return float64(a) < nearShare*float64(b) && b-a > nearGain
}

// errNotReady means that a gateway responds to probes but refuses requests.
var errNotReady = errors.New("the gateway is not ready")

// ready probes whether a gateway accepts requests.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection can be reused
	if resp.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("%s: %w", g.name(), errNotReady)
	}
	return nil
}
