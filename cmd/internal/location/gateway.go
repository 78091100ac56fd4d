package location

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hasScheme reports whether an argument is in a form of gateway addresses that cannot end in a dataset's name.
func hasScheme(arg string) bool {
	return slices.ContainsFunc([]string{"unix:", "dns:", "srv:"}, func(scheme string) bool { return strings.HasPrefix(arg, scheme) })
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

// OfServed returns the address of a gateway's dataset in the form that Served splits. It is empty for gateways whose
// addresses cannot end in a dataset's name.
func OfServed(gateway, name string) string {
	at, _, ok := Served(gateway, "")
	if !ok || hasScheme(gateway) {
		return ""
	}
	return at + "/" + url.PathEscape(name)
}

// Served splits GATEWAY/NAME into gateway and dataset name, unless given sets the name. Addresses with
// unix:, dns: or srv: contain no name. ok reports whether arg is a gateway's address.
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
