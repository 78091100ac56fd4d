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

// dialer returns what connects to an address, or to the socket that it stands for. Memory comes by such a socket's connections if shares says so.
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

// checkSocket refuses a path where another user may have put a socket of its own. A path with nothing at it is left to the dial.
func checkSocket(path string) error {
	is, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if is.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is no socket but %s: name the socket itself: %w", path, is.Mode(), ErrProtocol)
	}
	in, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, known := ownerOf(is)
	if in.Mode().Perm()&0o002 == 0 || !known || owner == 0 || owner == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%s belongs to the user %d, in a directory where every user may put a socket: give the gateway one where others "+
		"may not write, or run it as this user: %w", path, owner, ErrProtocol)
}
