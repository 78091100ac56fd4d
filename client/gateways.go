package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Limits of a gateway's cooldown. The client avoids a gateway after a fault. The cooldown doubles
// with each fault until the gateway responds. It also grows with the time that the fault took, so
// that slow faults cost a job little.
const (
	firstCooldown = time.Second
	mostCooldown  = 30 * time.Second
	mostTimes     = 8 // multiple of the time that the fault took
)

// gateway is one address that serves batches.
type gateway struct {
	base *url.URL
	host string // name and port that resolved to the address; empty: as in base

	// Guarded by fleet.mu:
	near   time.Duration // average latency of recent probes; 0: unknown
	faults int           // consecutive faults since the last answer to a request other than a probe
	// until is the end of the time in which the client avoids the gateway if another one is
	// left. Afterwards it must respond to a probe first. Zero: the gateway is not avoided.
	until time.Time
}

// name returns the gateway's address for errors.
func (g *gateway) name() string {
	if path := socketOf(g.base.Host); path != "" {
		return socketPrefix + path
	}
	return g.base.String()
}

// well reports whether the gateway may be the first in the order. The caller holds fleet.mu.
func (g *gateway) well() bool { return g.until.IsZero() }

// fleet holds a client's gateways and their observed state. The choice of a gateway affects only
// speed, never bytes.
type fleet struct {
	sources []source
	home    func(rank, worldSize uint64, gateways int) int
	lookup  func(ctx context.Context, host string) ([]string, error)

	lookupSRV func(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)

	probe func(ctx context.Context, g *gateway) error

	advised sync.Once // adviseHomes runs once

	asking chan struct{} // semaphore of name lookups and measurements

	mu       sync.Mutex // guards the fields below
	gateways []*gateway
	first    *gateway // the nearest gateway; unused with home
	resolved time.Time
	measured time.Time
	fault    error // error of the last lookup
}

// reader identifies the rank that a request is for.
type reader struct {
	rank, worldSize uint64
	known           bool
}

// order returns the gateways in the order in which to try them: first the reader's home or the
// nearest gateway, last those with recent faults. It may look up names and measure latency first.
// It fails only if no gateway is known.
func (f *fleet) order(ctx context.Context, who reader) ([]*gateway, error) {
	if err := f.refresh(ctx); err != nil {
		return nil, err
	}
	f.measure(ctx)
	for {
		all, back := f.sorted(who)
		if back == nil {
			return all, nil
		}
		if err := f.ask(ctx, back); err == nil || ctx.Err() == nil {
			f.settle(back, err)
		}
	}
}

// sorted returns the gateways in order. If the cooldown of the preferred gateway has ended, sorted
// returns that gateway as back instead: the caller must probe it first. Concurrent callers skip it
// during the probe.
func (f *fleet) sorted(who reader) (all []*gateway, back *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	all = f.preferred(who)
	if lead := all[0]; !lead.well() && !now.Before(lead.until) && len(all) > 1 {
		lead.until = now.Add(probeTime) // concurrent requests skip it until then
		return nil, lead
	}
	rank := func(g *gateway) int {
		switch {
		case g.well():
			return 0
		case !now.Before(g.until):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b *gateway) int { return rank(a) - rank(b) })
	return all, nil
}

// preferred returns the gateways in order of preference, regardless of faults. The caller holds mu.
func (f *fleet) preferred(who reader) []*gateway {
	all := slices.Clone(f.gateways)
	n := len(all)
	if f.home != nil {
		if !who.known {
			return all
		}
		at := min(max(f.home(who.rank, who.worldSize, n), 0), n-1)
		all[0], all[at] = all[at], all[0]
		if others := all[1:]; len(others) > 1 { // spreads the ranks of a lost home over the other gateways
			turn := int(who.rank % uint64(len(others)))
			copy(others, slices.Concat(others[turn:], others[:turn]))
		}
		return all
	}
	slices.SortStableFunc(all, func(a, b *gateway) int {
		switch {
		case a == b:
			return 0
		case a == f.first:
			return -1
		case b == f.first:
			return 1
		}
		return compareNear(a.near, b.near)
	})
	return all
}

// size returns the number of known gateways.
func (f *fleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.gateways)
}

// answered records a successful response of a gateway.
func (f *fleet) answered(g *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g.faults, g.until = 0, time.Time{}
	if f.first == nil || !f.first.well() {
		f.first = g
	}
}

// failed records a gateway's fault. Errors that the request or the shared store causes do not
// count.
func (f *fleet) failed(ctx context.Context, g *gateway, err error, took time.Duration) {
	wait, passed := passOver(err)
	if !passed || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passOver(g, took, wait)
}

// passOver makes the client avoid a gateway for at least wait. The caller holds mu.
func (f *fleet) passOver(g *gateway, took, wait time.Duration) {
	now := time.Now()
	if now.Before(g.until) {
		return // several concurrent requests failed at once
	}
	cooldown := min(max(firstCooldown, took)<<min(g.faults, 5), max(mostCooldown, mostTimes*took))
	g.faults++
	g.until = now.Add(max(cooldown+time.Duration(rand.Int64N(int64(cooldown/4))), wait))
}

// passOver reports whether an error means that other gateways should be tried first, and for how
// long at least.
func passOver(err error) (wait time.Duration, passed bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return 0, true // refused, reset, truncated, too slow or corrupt
	}
	switch {
	case e.Code == CodeDraining, e.Code == CodeOverloaded, e.Code == CodeTooManyRequests, e.elsewhere(), e.Code == "" && e.Status >= http.StatusInternalServerError:
		return min(e.RetryAfter, maxRetryAfter), true
	}
	return 0, false
}
