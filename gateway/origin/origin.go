// Package origin determines the origin of a request: its address, the proxies and host involved,
// and whether a page of another site caused it. It rejects disallowed requests and does not depend
// on status codes.
package origin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Reasons why a request is rejected.
var (
	ErrCrossSite = errors.New("cross-site requests are not allowed")
	ErrHost      = errors.New("this port serves only its own machine: use localhost or a loopback address, or start the gateway with --host NAME")
	ErrProxy     = errors.New("a proxy sent this request, but this port serves only its own machine: start the gateway with --access")
	ErrPlain     = errors.New("credentials were sent without TLS and may have been read: use https and replace the caller's token")
)

// Policy is the gateway's policy for origins. The zero value trusts no proxy and accepts only
// localhost as its machine's name.
type Policy struct {
	Host              []string       // names of this machine in lower case, in addition to localhost and loopback addresses
	TrustedProxies    []netip.Prefix // proxies whose Forwarded headers are trusted
	LocalOnly         bool           // a loopback port serves only its own machine: requests through proxies are rejected
	InsecurePlainHTTP bool           // accept credentials without TLS from other machines

	cross http.CrossOriginProtection
}

// loopbackKey is the context key for a boolean: the request's port is on loopback.
type loopbackKey struct{}

// OfListener returns a base context that records whether a listener is on loopback. It is the
// BaseContext of a server. A Unix socket counts as loopback.
func OfListener(ln net.Listener) context.Context {
	at, err := netip.ParseAddrPort(ln.Addr().String())
	local := ln.Addr().Network() == "unix" || err == nil && at.Addr().Unmap().IsLoopback()
	return context.WithValue(context.Background(), loopbackKey{}, local)
}

// Check rejects requests that a page of another site caused. On loopback it also rejects requests
// for another host and, with LocalOnly, requests through proxies. This prevents DNS rebinding, and
// proxies that expose the loopback port to others.
func (p *Policy) Check(r *http.Request) error {
	if err := p.cross.Check(r); err != nil {
		return ErrCrossSite
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return ErrCrossSite
	}
	if from := r.Header.Get("Origin"); from != "" && site == "" { // a browser without Sec-Fetch-Site; reads are rejected too
		if u, err := url.Parse(from); err != nil || u.Host != r.Host {
			return ErrCrossSite
		}
	}
	if loopback, _ := r.Context().Value(loopbackKey{}).(bool); !loopback {
		return nil
	}
	if !p.knows(r.Host) {
		return ErrHost
	}
	if p.LocalOnly && throughProxy(r.Header) {
		return ErrProxy
	}
	return nil
}

// CheckTransport rejects credentials that were sent without encryption.
func (p *Policy) CheckTransport(r *http.Request) error {
	if p.InsecurePlainHTTP || r.TLS != nil || len(r.Header.Values("Authorization")) == 0 {
		return nil
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || from.Addr().Unmap().IsLoopback() {
		return nil // a test without a connection, or a caller on this machine
	}
	return ErrPlain
}

// knows reports whether a Host header names this machine.
func (p *Policy) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback() || name == "localhost" || name == "" || slices.Contains(p.Host, name)
}

// throughProxy reports whether a proxy forwarded the request.
func throughProxy(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}
