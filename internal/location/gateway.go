package location

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

const socketPrefix = "unix:" // and the path of a Unix socket

// hostPort reports whether an argument is HOST:PORT.
func hostPort(arg string) bool {
	host, port, err := net.SplitHostPort(arg)
	_, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && notNumber == nil && host != "" && !strings.ContainsAny(host, "/@")
}

// IsGateway reports whether an argument is a gateway's address.
func IsGateway(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, socketPrefix) || hostPort(arg)
}

// Served divides the address of a dataset that a gateway serves, GATEWAY/NAME, unless a name is given already. A socket's path names no dataset. ok says whether it is a gateway's address at all.
func Served(arg, given string) (gateway, name string, ok bool) {
	if strings.HasPrefix(arg, socketPrefix) {
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
		return gateway + "/" + path, given, true
	}
	name, err := url.PathUnescape(strings.TrimPrefix(strings.Trim(path, "/"), "v1/datasets/"))
	if err != nil {
		name = path
	}
	return gateway, name, true
}
