package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The client looks up names again after lookupEvery, and when all gateways have failed. A call that
// has its response waits at most renewTime for a running lookup.
const (
	lookupEvery = 30 * time.Second
	// lookupTime covers several servers: a resolver gives up on each of its servers after 5 s.
	lookupTime = 15 * time.Second
	renewTime  = 500 * time.Millisecond
)

// source is an entry of Config.Gateways, for one or more gateways.
type source struct {
	base *url.URL
	kind addressKind
	last []*gateway // gateways found by the previous lookup; guarded by fleet.mu
}

// addressKind is the kind of an address in Config.Gateways.
type addressKind int

const (
	itself    addressKind = iota // one gateway, whose name the dialer resolves
	several                      // http://NAME:PORT: one gateway per address if the name has several; otherwise like itself
	addresses                    // dns:NAME:PORT: one gateway per address of the name
	records                      // srv:NAME: one gateway per SRV record of the name
)

// lookup reports whether the client resolves the name itself.
func (s source) lookup() bool { return s.kind != itself }

// must reports whether the source has no gateways unless a DNS lookup succeeds. For other sources
// the dialer resolves the name.
func (s source) must() bool { return s.kind == addresses || s.kind == records }

// socket reports whether the gateway listens on a Unix socket.
func (s source) socket() bool { return socketOf(s.base.Host) != "" }

// parseSource parses a base URL, dns:NAME:PORT, srv:NAME or unix:PATH. With spread, each address of
// a name with several addresses is a separate gateway.
func parseSource(s string, spread bool) (source, error) {
	if path, here := strings.CutPrefix(s, socketPrefix); here {
		return parseSocket(path)
	}
	if name, isService := strings.CutPrefix(s, srvPrefix); isService {
		return parseService(name)
	}
	rest, named := strings.CutPrefix(s, "dns:")
	if named {
		host, port, err := net.SplitHostPort(rest)
		if err != nil || host == "" || port == "" || strings.ContainsAny(rest, "/@") {
			return source{}, fmt.Errorf("gateway %q: want dns:NAME:PORT", rest[strings.LastIndex(rest, "@")+1:])
		}
		s = rest
	}
	u, err := parseGateway(s)
	if err != nil {
		return source{}, err
	}
	_, err = netip.ParseAddr(u.Hostname())
	// An https name is not resolved, because the certificate contains the name.
	isName := err != nil && u.Scheme == "http" && u.Hostname() != "localhost"
	switch {
	case named:
		return source{base: u, kind: addresses}, nil
	case spread && isName:
		return source{base: u, kind: several}, nil
	}
	return source{base: u}, nil
}

// refresh looks up the names if no gateway is known. It fails if there is still none.
func (f *fleet) refresh(ctx context.Context) error {
	if _, never := f.unresolved(); never && f.enter(ctx, true) {
		defer f.leave()
		if _, never = f.unresolved(); never {
			f.resolve(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.gateways) > 0:
		return nil
	case f.fault != nil:
		return f.fault
	}
	return fmt.Errorf("look up gateways: %w", context.Cause(ctx))
}

// renewals returns two functions for one call: renew starts a lookup in the background if one is
// due, and end waits for it, up to renewTime.
func (f *fleet) renewals(ctx context.Context) (renew, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var since time.Time
	renew = func() {
		if due, never := f.unresolved(); !due || never || !f.enter(ctx, false) {
			return
		}
		since = time.Now()
		wg.Go(func() {
			defer f.leave()
			if due, _ := f.unresolved(); due {
				f.resolve(ctx)
			}
		})
	}
	return renew, func() {
		if !since.IsZero() {
			patience := time.AfterFunc(renewTime-time.Since(since), cancel)
			wg.Wait()
			patience.Stop()
		}
		cancel()
	}
}

// unresolved reports whether a lookup is due, and whether none has succeeded yet.
func (f *fleet) unresolved() (due, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	never = len(f.gateways) == 0
	return never || f.resolved.IsZero() || f.named() && time.Since(f.resolved) >= lookupEvery, never
}

func (f *fleet) named() bool {
	return slices.ContainsFunc(f.sources, source.lookup)
}

// allFailed makes a lookup due before the next round.
func (f *fleet) allFailed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.named() {
		f.resolved = time.Time{}
	}
}

// resolve rebuilds the list of gateways. Known gateways keep their state.
func (f *fleet) resolve(ctx context.Context) {
	found, fault := f.findAll(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	known := map[string]*gateway{}
	for _, g := range f.gateways {
		known[g.key()] = g
	}
	var all, fresh []*gateway
	listed := map[string]bool{}
	for i, s := range f.sources {
		if found[i] == nil { // the lookup failed
			found[i] = s.before()
		}
		f.sources[i].last = found[i]
		for _, g := range found[i] {
			if listed[g.key()] {
				continue
			}
			listed[g.key()] = true
			switch old := known[g.key()]; {
			case old != nil:
				all = append(all, old)
			case s.lookup() && f.home == nil:
				fresh = append(fresh, g)
			default:
				all = append(all, g)
			}
		}
	}
	// Clients that resolve a name at the same time should start with different gateways.
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	f.gateways, f.fault, f.resolved = append(all, fresh...), fault, time.Now()
	if len(fresh) > 0 {
		f.measured = time.Time{}
	}
	if !slices.Contains(f.gateways, f.first) {
		f.first = nil
	}
}

// findAll resolves all sources concurrently. A source whose lookup fails gets nil.
func (f *fleet) findAll(ctx context.Context) ([][]*gateway, error) {
	limit := lookupTime
	if end, ok := ctx.Deadline(); ok { // the dialer may resolve a name that fails here
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, faults := make([][]*gateway, len(f.sources)), make([]error, len(f.sources))
	var wg sync.WaitGroup
	for i, s := range f.sources {
		wg.Go(func() { found[i], faults[i] = f.find(ctx, s) })
	}
	wg.Wait()
	return found, errors.Join(faults...)
}

// before returns the gateways of the previous lookup. If there are none, and the source does not
// require a lookup, it returns a gateway whose name the dialer resolves. The caller holds fleet.mu.
func (s source) before() []*gateway {
	if s.last == nil && !s.must() {
		return []*gateway{{base: s.base}}
	}
	return s.last
}

// key identifies a gateway.
func (g *gateway) key() string { return g.base.String() }

// find resolves one source.
func (f *fleet) find(ctx context.Context, s source) ([]*gateway, error) {
	asIs := []*gateway{{base: s.base}}
	if s.socket() {
		asIs[0].host = "localhost"
	}
	switch s.kind {
	case itself:
		return asIs, nil
	case records:
		return f.findRecords(ctx, s)
	}
	found, err := f.lookup(ctx, s.base.Hostname())
	if err != nil {
		return nil, fmt.Errorf("look up gateways %s: %w", s.base.Hostname(), err)
	}
	var all []*gateway
	local := true // all addresses are loopback addresses
	for _, text := range found {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			continue
		}
		local = local && a.IsLoopback()
		u := *s.base
		u.Host = strings.TrimSuffix(net.JoinHostPort(a.String(), s.base.Port()), ":")
		all = append(all, &gateway{base: &u, host: s.base.Host})
	}
	switch {
	case len(all) == 0 && s.must():
		return nil, fmt.Errorf("look up gateways %s: none of the addresses %q is usable", s.base.Hostname(), found)
	case (len(all) < 2 || local) && !s.must():
		return asIs, nil
	}
	return all, nil
}
