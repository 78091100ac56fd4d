package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// socketHost is the suffix of hosts that encode the path of a Unix socket, since a URL cannot
	// hold a path to dial. RFC 6761 reserves the domain .invalid.
	socketHost = ".socket.invalid"

	socketPrefix = "unix:" // prefix of a socket's address in Config.Gateways
)

// errNoSocket contains the form of a Unix socket's address.
var errNoSocket = errors.New("gateway: want unix: and the whole path of a socket, as unix:/run/millrace/socket")

// parseSocket parses the address of a gateway that listens on a Unix socket.
func parseSocket(path string) (source, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return source{}, errNoSocket
	}
	return source{base: &url.URL{Scheme: "http", Host: hex.EncodeToString([]byte(path)) + socketHost}}, nil
}

// socketOf returns the socket path that a host encodes, or "" for other hosts.
func socketOf(host string) string {
	digits, found := strings.CutSuffix(host, socketHost)
	path, err := hex.DecodeString(digits)
	if !found || err != nil {
		return ""
	}
	return string(path)
}

// dialer returns a function that dials an address, or the socket that it encodes. With shares,
// connections to sockets can receive shared memory.
func dialer(shares bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		path := socketOf(host)
		if err != nil || path == "" {
			return d.DialContext(ctx, network, address)
		}
		if err := checkSocket(path); err != nil {
			return nil, err
		}
		c, err := d.DialContext(ctx, "unix", path)
		if local, ok := c.(*net.UnixConn); err == nil && ok && shares {
			return newNeighbour(local), nil
		}
		return c, err
	}
}

// checkSocket rejects a path where another user could have created the socket. If the file is
// missing, the dial reports it.
func checkSocket(path string) error {
	is, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if is.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket but %s: use the path of the socket itself: %w", path, is.Mode(), ErrProtocol)
	}
	in, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, known := ownerOf(is)
	if in.Mode().Perm()&0o002 == 0 || !known || owner == 0 || owner == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%s belongs to the user %d, and every user may create sockets in its directory: use a directory where others "+
		"cannot write, or run the gateway as this user: %w", path, owner, ErrProtocol)
}
