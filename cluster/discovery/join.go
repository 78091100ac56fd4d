package discovery

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// PeerPort is the default port of a gateway for questions from other gateways.
const PeerPort = 7946

// Scheme is a way to find other gateways.
type Scheme string

// The schemes. A list has no scheme prefix.
const (
	SchemeList Scheme = ""     // HOST:PORT, HOST, ...
	SchemeDNS  Scheme = "dns"  // the addresses of one DNS name
	SchemeSRV  Scheme = "srv"  // SRV records: the hosts and ports of a service
	SchemeFile Scheme = "file" // a file of addresses, one per line, read again when it changes
)

// Join specifies how to find other gateways. A host may be a name; all its addresses are used.
type Join struct {
	Scheme  Scheme
	Targets []string // host:port for a list or a DNS name; otherwise the name of the service or the file
}

// ParseJoin parses a Join. The default port is PeerPort.
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
		return j, fmt.Errorf("%w; use HOST:PORT,HOST:PORT or dns:NAME:PORT or srv:NAME or file:FILE", err)
	case rest == "" || len(j.Targets) == 0:
		return j, errors.New("it contains no host; use HOST:PORT,HOST:PORT or dns:NAME:PORT or srv:NAME or file:FILE")
	case len(j.Targets) > 1 && j.Scheme == SchemeDNS:
		return j, errors.New("dns: must be one name")
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

// addresses parses a list of hosts, whose ports are optional.
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

// mostList is the maximum size of a file of addresses in bytes, many times the size of mostContacts
// addresses.
const mostList = 1 << 20

// ReadList reads a file of addresses: one per line; a # begins a comment. It returns an error for a
// pipe: reading one would wait for its writer, and the gateway could not stop meanwhile.
func ReadList(file string) ([]string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the list of gateways: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read the list of gateways: %s is not a regular file", file)
	case info.Size() > mostList:
		return nil, fmt.Errorf("read the list of gateways: %s has %d bytes: must be at most %d", file, info.Size(), mostList)
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

// withPort adds a port to a host, which may be a bare IPv6 address.
func withPort(s string, port int) (string, error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = strings.Trim(s, "[]"), strconv.Itoa(port)
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%q: must be HOST or HOST:PORT", s)
		}
	}
	address := net.JoinHostPort(host, p)
	return address, CheckAddress(address)
}

// CheckAddress returns an error for an address that cannot be dialed: one without a host, with an
// unspecified IP address, or without a port above 0.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: must be HOST:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q: the port must be 1 to 65535", address)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || strings.ContainsAny(host, " /@\t\n\r\x00") || len(host) > 253:
		return fmt.Errorf("address %q: the host is missing or invalid", address)
	case ip != nil && ip.IsUnspecified():
		return fmt.Errorf("address %q: an unspecified IP address cannot be reached", address)
	}
	return nil
}

// Loopback reports whether the host of an address is a loopback address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
