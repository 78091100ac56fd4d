package location

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// socketPrefix is before the path of a Unix socket.
const socketPrefix = "unix:"

// schemes begin the addresses that stand for gateways by themselves, and end in no dataset's name.
func schemes() []string { return []string{socketPrefix, "dns:", "srv:"} }

// hasScheme reports whether an argument begins with one of schemes.
func hasScheme(arg string) bool {
	return slices.ContainsFunc(schemes(), func(scheme string) bool { return strings.HasPrefix(arg, scheme) })
}

// hostPort reports whether an argument is HOST:PORT.
func hostPort(arg string) bool {
	host, port, err := net.SplitHostPort(arg)
	_, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && notNumber == nil && host != "" && !strings.ContainsAny(host, "/@")
}

// IsGateway reports whether an argument is a gateway's address.
func IsGateway(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") || hasScheme(arg) || hostPort(arg)
}

// OfServed is the address of a dataset that a gateway serves, as Served divides it. It is empty for gateways whose addresses end in no dataset's name.
func OfServed(gateway, name string) string {
	at, _, ok := Served(gateway, "")
	if !ok || hasScheme(gateway) {
		return ""
	}
	return at + "/" + url.PathEscape(name)
}

// Served divides the address of a dataset that a gateway serves, GATEWAY/NAME, unless a name is given already. A socket's path names no dataset, and
// neither does what is behind dns: and srv:. ok says whether it is a gateway's address at all.
func Served(arg, given string) (gateway, name string, ok bool) {
	if hasScheme(arg) {
		return arg, given, true
	}
	scheme, rest, found := strings.Cut(arg, "://")
	if !found {
		scheme, rest = "http", arg
	}
	host, path, _ := strings.Cut(rest, "/")
	gateway = strings.ToLower(scheme) + "://" + host
	if !IsGateway(gateway) || !found && !hostPort(host) {
		return "", "", false
	}
	if given != "" {
		return strings.TrimSuffix(gateway+"/"+path, "/"), given, true
	}
	name, err := url.PathUnescape(strings.TrimPrefix(strings.Trim(path, "/"), "v1/datasets/"))
	if err != nil {
		name = path
	}
	return gateway, name, true
}
