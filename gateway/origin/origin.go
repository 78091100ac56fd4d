// Package origin says where a request comes from: which address, through which proxies, for which host, and whether a page
// of another site has made a browser send it. It refuses what comes from where nobody should, and knows no status codes.
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

// Why a request is refused.
var (
	ErrCrossSite = errors.New("a page of another site sent this request")
	ErrHost      = errors.New("this port serves its own machine: ask for localhost or a loopback address, or start the gateway with --host NAME")
	ErrProxy     = errors.New("a proxy sent this request, and this port serves its own machine alone: give the gateway an --access file")
	ErrPlain     = errors.New("credentials came without TLS, and others could read them: use https, and give the caller a new token")
)

// Policy is what a gateway takes. The zero value trusts no proxy and knows no name of its machine but localhost.
type Policy struct {
	Host              []string       // names of this machine, in lower case, beside localhost and loopback addresses
	TrustedProxies    []netip.Prefix // addresses of proxies whose word for a caller's address is taken
	LocalOnly         bool           // a port on loopback serves its own machine alone: proxies pass nothing on to it
	InsecurePlainHTTP bool           // credentials may come without TLS from other machines

	cross http.CrossOriginProtection
}

// loopbackKey is the key under which the context of a request says that its port is on loopback.
type loopbackKey struct{}

// OfListener notes in the context of all requests of a port what its listener says of them. It is a BaseContext of a server. A Unix socket
// counts as loopback.
func OfListener(ln net.Listener) context.Context {
	at, err := netip.ParseAddrPort(ln.Addr().String())
	local := ln.Addr().Network() == "unix" || err == nil && at.Addr().Unmap().IsLoopback()
	return context.WithValue(context.Background(), loopbackKey{}, local)
}

// Check refuses requests that a page of another site has made a browser send. On loopback it also refuses those for another
// host and those that came through a proxy: a browser that was led to loopback by the name of a stranger, and a proxy that
// lends this machine's loopback to others.
func (p *Policy) Check(r *http.Request) error {
	if err := p.cross.Check(r); err != nil {
		return ErrCrossSite
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return ErrCrossSite
	}
	if from := r.Header.Get("Origin"); from != "" && site == "" { // a browser from before Sec-Fetch-Site; reads are refused too
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

// CheckTransport refuses credentials that others could read on their way.
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

// knows reports whether a Host header means this machine.
func (p *Policy) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback() || name == "localhost" || name == "" || slices.Contains(p.Host, name)
}

// throughProxy reports whether a proxy has passed a request on.
func throughProxy(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}
