package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Ports that a gateway uses where its user names none.
const (
	PeerPort   = 7946 // asked for chunks
	GossipPort = 7947 // of the gossip between gateways: TCP and UDP
)

// Discovery finds addresses where gateways may be. Who is a member is not its business: that is said by whoever answers there.
type Discovery interface {
	// Run hands over all addresses (host:port) that it knows now, each time that they change, until ctx ends. It
	// returns an error if it can never find anything.
	Run(ctx context.Context, found func(addresses []string)) error
}

// Scheme is a way to find the other gateways.
type Scheme string

// The ways.
const (
	SchemeStatic Scheme = "static" // a list
	SchemeDNS    Scheme = "dns"    // the addresses of one name
	SchemeGossip Scheme = "gossip" // by word of mouth, from a few seeds on
)

// Join says how to find the others: static:HOST,HOST:PORT or dns:NAME:PORT or gossip:SEED,SEED.
type Join struct {
	Scheme  Scheme
	Targets []string // host:port
}

// ParseJoin reads a Join. A port left out is PeerPort, or GossipPort for seeds.
func ParseJoin(s string) (Join, error) {
	scheme, list, found := strings.Cut(s, ":")
	j := Join{Scheme: Scheme(scheme)}
	port := PeerPort
	switch j.Scheme {
	case SchemeGossip:
		port = GossipPort
	case SchemeStatic, SchemeDNS:
	default:
		return j, errors.New("want static:HOST,HOST or dns:NAME:PORT or gossip:SEED,SEED")
	}
	if found {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "" {
				continue
			}
			target, err := withPort(t, port)
			if err != nil {
				return j, err
			}
			j.Targets = append(j.Targets, target)
		}
	}
	switch {
	case len(j.Targets) == 0 && j.Scheme != SchemeGossip: // the first one of a gossip has nobody to name
		return j, fmt.Errorf("%s: names no host", scheme)
	case len(j.Targets) > 1 && j.Scheme == SchemeDNS:
		return j, errors.New("dns: want one name")
	}
	return j, nil
}

func (j Join) String() string { return string(j.Scheme) + ":" + strings.Join(j.Targets, ",") }

// withPort completes a host, a bare IPv6 address among them, by a port.
func withPort(s string, port int) (string, error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = strings.Trim(s, "[]"), strconv.Itoa(port)
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%q: want HOST or HOST:PORT", s)
		}
	}
	address := net.JoinHostPort(host, p)
	return address, CheckAddress(address)
}

// CheckAddress refuses what nobody could dial: an address without a host, with one that means "every address here", or without
// a port above 0.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: want HOST:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q: want a port from 1 to 65535", address)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || strings.ContainsAny(host, " /@\t\n\r\x00") || len(host) > 253:
		return fmt.Errorf("address %q: want a host", address)
	case ip != nil && ip.IsUnspecified():
		return fmt.Errorf("address %q: nobody can be reached there", address)
	}
	return nil
}

// Loopback reports whether only the machine itself can reach the host of an address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
