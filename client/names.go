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

// Names are looked up again after a while, and when every gateway has failed. Beyond renewTime nobody waits for a name server
// who has what he asked for.
const (
	lookupEvery = 30 * time.Second
	lookupTime  = 15 * time.Second // a resolver gives up on each of its servers after 5 s
	renewTime   = 500 * time.Millisecond
)

// source is what Config.Gateways says about one or more gateways.
type source struct {
	base *url.URL
	kind addressKind
	last []*gateway // from the lookup before; guarded by fleet.mu
}

// addressKind is what an address of Config.Gateways stands for.
type addressKind int

const (
	itself    addressKind = iota // one gateway, whose name is left to the dialler
	several                      // http://NAME:PORT: each address of the name is a gateway if it has several, else as itself
	addresses                    // dns:NAME:PORT: each address of the name is a gateway
	records                      // srv:NAME: each SRV record of the name is a gateway
)

// lookup reports whether the name is looked up here.
func (s source) lookup() bool { return s.kind != itself }

// must reports whether there is no gateway without an answer of the name server; else the name is left to the dialler.
func (s source) must() bool { return s.kind == addresses || s.kind == records }

// socket reports whether the gateway listens at a Unix socket.
func (s source) socket() bool { return socketOf(s.base.Host) != "" }

// parseSource reads a base URL, dns:NAME:PORT, srv:NAME or unix:PATH. spread says that a name with several addresses is as many gateways.
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
	// A certificate is made out to the name: behind https the name stays.
	isName := err != nil && u.Scheme == "http" && u.Hostname() != "localhost"
	switch {
	case named:
		return source{base: u, kind: addresses}, nil
	case spread && isName:
		return source{base: u, kind: several}, nil
	}
	return source{base: u}, nil
}

// refresh looks up the names if no gateway is known. It is an error only if none is then.
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

// renewals gives one call what looks the names up again, if that is due, while the call asks the gateways that are known, and
// what must be called at its end.
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

// unresolved says whether names should be looked up now, and whether they never were.
func (f *fleet) unresolved() (due, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	never = len(f.gateways) == 0
	return never || f.resolved.IsZero() || f.named() && time.Since(f.resolved) >= lookupEvery, never
}

func (f *fleet) named() bool {
	return slices.ContainsFunc(f.sources, source.lookup)
}

// allFailed has names looked up again before the next round.
func (f *fleet) allFailed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.named() {
		f.resolved = time.Time{}
	}
}

// resolve makes the list of gateways anew. Those that were known keep what was seen of them.
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
		if found[i] == nil { // the name has no answer
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
	// Clients that look up one name at once are not all to begin with the same address.
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	f.gateways, f.fault, f.resolved = append(all, fresh...), fault, time.Now()
	if len(fresh) > 0 {
		f.measured = time.Time{}
	}
	if !listed[f.firstKey()] {
		f.first = nil
	}
}

// findAll returns the gateways of each source, looked up side by side: none of a name without an answer.
func (f *fleet) findAll(ctx context.Context) ([][]*gateway, error) {
	limit := lookupTime
	if end, ok := ctx.Deadline(); ok { // what dials may know a name that has no answer here
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

// before returns what the name of a source gave before; if that is nothing, the dialler will say what is wrong. The caller
// holds fleet.mu.
func (s source) before() []*gateway {
	if s.last == nil && !s.must() {
		return []*gateway{{base: s.base}}
	}
	return s.last
}

// key tells gateways apart.
func (g *gateway) key() string { return g.base.String() }

func (f *fleet) firstKey() string {
	if f.first == nil {
		return ""
	}
	return f.first.key()
}

// find returns the gateways of one source; none with an error if its name has no answer.
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
	local := true // all ways lead to this machine
	for _, text := range found {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			continue
		}
		local = local && a.IsLoopback()
		u := *s.base
		u.Host = a.String()
		if a.Is6() {
			u.Host = "[" + u.Host + "]"
		}
		if port := s.base.Port(); port != "" {
			u.Host = net.JoinHostPort(a.String(), port)
		}
		all = append(all, &gateway{base: &u, host: s.base.Host})
	}
	switch {
	case len(all) == 0 && s.must():
		return nil, fmt.Errorf("look up gateways %s: no address that can be dialled in %q", s.base.Hostname(), found)
	case (len(all) < 2 || local) && !s.must():
		return asIs, nil
	}
	return all, nil
}
