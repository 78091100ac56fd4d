package client

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

const (
	// socketHost ends the host of a base URL that stands for a Unix socket: a URL has no place for a path to dial. No name
	// in the world ends so (RFC 6761).
	socketHost = ".socket.invalid"

	socketPrefix = "unix:" // of a socket's address, as people write it
)

// errNoSocket says how a Unix socket is named.
var errNoSocket = errors.New("gateway: want unix: and the whole path of a socket, as unix:/run/millrace/socket")

// parseSocket reads the address of a gateway that listens at a Unix socket.
func parseSocket(path string) (source, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return source{}, errNoSocket
	}
	return source{base: &url.URL{Scheme: "http", Host: hex.EncodeToString([]byte(path)) + socketHost}}, nil
}

// socketOf returns the path of the socket that a host stands for, and "" for any other host.
func socketOf(host string) string {
	digits, found := strings.CutSuffix(host, socketHost)
	path, err := hex.DecodeString(digits)
	if !found || err != nil {
		return ""
	}
	return string(path)
}

// dial connects to an address, or to the socket that it stands for.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	host, _, err := net.SplitHostPort(address)
	if path := socketOf(host); err == nil && path != "" {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, network, address)
}
