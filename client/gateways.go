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

// How long a gateway is passed over after a fault: twice as long after each, until it has answered, and longer the more time
// the fault took, so that what it takes of a job becomes little.
const (
	firstCooldown = time.Second
	mostCooldown  = 30 * time.Second
	mostTimes     = 8 // what a fault took
)

// gateway is one address that batches are asked of.
type gateway struct {
	base *url.URL
	host string // the name that its address was looked up from, with the port; empty: base says it

	// Guarded by fleet.mu:
	near   time.Duration // from a probe to its answer, of late; 0: not known
	faults int           // since it last answered more than a probe
	until  time.Time     // passed over before, unless nobody else is left, and from then on probed first; zero: neither
}

// name names a gateway in errors.
func (g *gateway) name() string {
	if path := socketOf(g.base.Host); path != "" {
		return socketPrefix + path
	}
	return g.base.String()
}

// well says whether nothing speaks against asking a gateway first. The caller holds fleet.mu.
func (g *gateway) well() bool { return g.until.IsZero() }

// fleet is the gateways that a client knows and what it has seen of them. Which one is asked changes speed, never bytes.
type fleet struct {
	sources []source
	home    func(rank, worldSize uint64, gateways int) int
	lookup  func(ctx context.Context, host string) ([]string, error)

	lookupSRV func(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)

	probe func(ctx context.Context, g *gateway) error

	advised sync.Once // adviseHomes has spoken

	asking chan struct{} // holds a token while names are looked up or gateways measured

	mu       sync.Mutex // guards what follows
	gateways []*gateway
	first    *gateway // the near one, where no rank has a home
	resolved time.Time
	measured time.Time
	fault    error // why a name has no address
}

// reader is on whose behalf gateways are asked.
type reader struct {
	rank, worldSize uint64
	known           bool
}

// order returns the gateways in the order in which they are to be asked: the reader's own or the near one first, and at
// the end those that failed of late. It may look names up and measure before. Only without any address it is an error.
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

// sorted returns the gateways in order. back is one that would be the first but for a fault whose time is over: it has to
// show itself first, and nobody else is to wait for that.
func (f *fleet) sorted(who reader) (all []*gateway, back *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	all = f.preferred(who)
	if lead := all[0]; !lead.well() && !now.Before(lead.until) && len(all) > 1 {
		lead.until = now.Add(probeTime) // who comes meanwhile passes it over
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

// preferred returns the gateways as if none had ever failed. The caller holds mu.
func (f *fleet) preferred(who reader) []*gateway {
	all := slices.Clone(f.gateways)
	n := len(all)
	if f.home != nil {
		if !who.known {
			return all
		}
		at := min(max(f.home(who.rank, who.worldSize, n), 0), n-1)
		all[0], all[at] = all[at], all[0]
		if others := all[1:]; len(others) > 1 { // ranks whose home is lost go to different ones
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

// size returns how many gateways are known.
func (f *fleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.gateways)
}

// answered notes that a gateway has answered.
func (f *fleet) answered(g *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g.faults, g.until = 0, time.Time{}
	if f.first == nil || !f.first.well() {
		f.first = g
	}
}

// failed notes that a gateway did not answer, or not as a gateway should. What is wrong with the request, or with the
// store behind all of them, is no fault of its.
func (f *fleet) failed(ctx context.Context, g *gateway, err error, took time.Duration) {
	wait, passed := passOver(err)
	if !passed || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passOver(g, took, wait)
}

// passOver lets a gateway rest, for so long at least. The caller holds mu.
func (f *fleet) passOver(g *gateway, took, wait time.Duration) {
	now := time.Now()
	if now.Before(g.until) {
		return // one of many requests that failed together
	}
	cooldown := min(max(firstCooldown, took)<<min(g.faults, 5), max(mostCooldown, mostTimes*took))
	g.faults++
	g.until = now.Add(max(cooldown+time.Duration(rand.Int64N(int64(cooldown/4))), wait))
}

// passOver says whether an answer means that other gateways should be asked first for a while, and for how long at least.
func passOver(err error) (wait time.Duration, passed bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return 0, true // refused, reset, ended early, too slow, damaged
	}
	switch {
	case e.Code == CodeDraining, e.Code == CodeOverloaded, e.Code == CodeTooManyRequests, e.elsewhere(), e.Code == "" && e.Status >= http.StatusInternalServerError:
		return min(e.RetryAfter, maxRetryAfter), true
	}
	return 0, false
}
