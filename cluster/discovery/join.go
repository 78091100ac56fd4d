package discovery

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// PeerPort is the port at which a gateway is asked for chunks where its user names none.
const PeerPort = 7946

// Scheme is a way to find the other gateways.
type Scheme string

// The ways. A list has no scheme before it.
const (
	SchemeList Scheme = ""     // HOST:PORT, HOST, ...
	SchemeDNS  Scheme = "dns"  // the addresses of one name
	SchemeSRV  Scheme = "srv"  // the hosts and ports of a service: SRV records
	SchemeFile Scheme = "file" // a file of addresses, one a line, read again when it changes
)

// Join says how to find the others. A host may be a name, and all its addresses count.
type Join struct {
	Scheme  Scheme
	Targets []string // host:port of a list or a DNS name; else the name of the service, or of the file
}

// ParseJoin reads a Join. A port left out is PeerPort.
func ParseJoin(s string) (Join, error) {
	scheme, rest, _ := strings.Cut(s, ":")
	j := Join{Scheme: Scheme(scheme)}
	var err error
	switch j.Scheme {
	case SchemeSRV, SchemeFile:
		j.Targets = []string{rest}
	case SchemeDNS:
		j.Targets, err = addresses(rest)
	default:
		j.Scheme, rest = SchemeList, s
		j.Targets, err = addresses(s)
	}
	switch {
	case err != nil:
		return j, fmt.Errorf("%w; want HOST:PORT,HOST:PORT or dns:NAME:PORT or srv:NAME or file:FILE", err)
	case rest == "" || len(j.Targets) == 0:
		return j, errors.New("names no host; want HOST:PORT,HOST:PORT or dns:NAME:PORT or srv:NAME or file:FILE")
	case len(j.Targets) > 1 && j.Scheme == SchemeDNS:
		return j, errors.New("dns: want one name")
	}
	return j, nil
}

func (j Join) String() string {
	list := strings.Join(j.Targets, ",")
	if j.Scheme == SchemeList {
		return list
	}
	return string(j.Scheme) + ":" + list
}

// addresses reads a list of hosts, whose ports may be left out.
func addresses(list string) ([]string, error) {
	var all []string
	for t := range strings.SplitSeq(list, ",") {
		t = strings.TrimSpace(t)
		if t == "" {
			continue
		}
		a, err := withPort(t, PeerPort)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// mostList is the longest list of gateways, in bytes, that is read: many times what mostContacts addresses take.
const mostList = 1 << 20

// ReadList reads a file of addresses: one a line; what follows a # is a remark. A pipe is refused: to read it would wait for
// whoever writes to it, and the gateway could not end meanwhile.
func ReadList(file string) ([]string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the list of gateways: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read the list of gateways: %s is no regular file", file)
	case info.Size() > mostList:
		return nil, fmt.Errorf("read the list of gateways: %s has %d bytes, at most %d are read", file, info.Size(), mostList)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the list of gateways: %w", err)
	}
	var all []string
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		list, err := addresses(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, i+1, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

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
