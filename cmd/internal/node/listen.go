package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mostOfPath is the maximum length of a Unix socket's path on every system. macOS allows 104 bytes,
// including the final zero.
const mostOfPath = 103

// socketPrefix begins the address of a Unix socket.
const socketPrefix = "unix:"

// SocketOf returns the path that an address unix:PATH names, and "" for any other address.
func SocketOf(address string) string {
	path, _ := strings.CutPrefix(address, socketPrefix)
	if path == address {
		return ""
	}
	return path
}

// Addresses splits a comma-separated list of addresses.
func Addresses(list string) []string { return strings.Split(list, ",") }

// hasSocket reports whether a list of addresses contains a Unix socket.
func hasSocket(list string) bool {
	return slices.ContainsFunc(Addresses(list), func(address string) bool { return SocketOf(address) != "" })
}

// writePorts replaces a file by the addresses of the listeners, one per line: HOST:PORT, or unix:PATH. The replacement is
// atomic, and only this user may read the file.
func writePorts(path string, listeners []net.Listener) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write port-file: %w", err)
		}
	}()
	var lines strings.Builder
	for _, l := range listeners {
		at := l.Addr().String()
		if l.Addr().Network() == "unix" {
			at = socketPrefix + at
		}
		lines.WriteString(at + "\n")
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is returned
	}
	return err
}

// privateMode is the mode of a Unix socket to which only its user can connect.
const privateMode fs.FileMode = 0o600

// Private reports whether only its user can connect to a Unix socket of this mode. 0 stands for
// 0600.
func Private(mode fs.FileMode) bool { return mode&0o066 == 0 }

// Listen binds an address, HOST:PORT or unix:PATH with a mode. Its error names the address.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	l, err := Bind(ctx, address, mode)
	if errors.Is(err, syscall.EADDRINUSE) && SocketOf(address) == "" {
		return nil, fmt.Errorf("listen on %s: the port is in use: stop the process that uses it, or choose another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %v", address, err) //nolint:errorlint // no store: the exit code must not say so
	}
	return l, nil
}

// CheckPorts returns an error if a TCP port of a gateway is in use. It keeps no port bound, since
// the gateway serves only once its datasets are open.
func CheckPorts(ctx context.Context, c *Config) error {
	all := append(Addresses(c.Listen), c.AdminListen, c.HealthListen)
	if c.Cluster != "" {
		all = append(all, c.PeerListen)
	}
	for _, address := range all {
		if address == "" || SocketOf(address) != "" {
			continue
		}
		l, err := Listen(ctx, address, 0)
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}

// Bind binds an address, HOST:PORT or unix:PATH with a mode; 0 means 0600.
func Bind(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	if path := SocketOf(address); path != "" {
		return bindSocket(ctx, path, cmp.Or(mode, privateMode))
	}
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}}
	return lc.Listen(ctx, "tcp", address)
}

// socket is a listener at a path. Close removes the path if it still leads to this socket.
type socket struct {
	net.Listener
	path string
	is   fs.FileInfo
}

// bindSocket makes a Unix socket with a mode. It replaces an unused socket of this user. It binds
// the socket under another name, sets the mode, and renames it. So clients cannot connect before
// the mode is set, and two gateways that start concurrently do not remove each other's socket.
func bindSocket(ctx context.Context, path string, mode fs.FileMode) (_ net.Listener, err error) {
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if len(fresh) > mostOfPath {
		return nil, fmt.Errorf("the path of the socket and a process number have %[2]d bytes, at most %[1]d are allowed: choose a shorter path", mostOfPath, len(fresh))
	}
	if err := replaceable(ctx, path); err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(filepath.Dir(path)) // so that a symbolic link in the socket's place cannot redirect the calls below
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	own, name := filepath.Base(fresh), filepath.Base(path)
	defer func() {
		if err != nil {
			ln.Close()
			_ = dir.Remove(own) // fails after the rename, when own no longer exists
		}
	}()
	if err := dir.Chmod(own, mode); err != nil {
		return nil, err
	}
	is, err := dir.Lstat(own)
	if err != nil {
		return nil, err
	}
	if err := dir.Rename(own, name); err != nil {
		return nil, err
	}
	s := &socket{ln, path, is}
	if err := bound(path, is, mode); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// bound returns an error unless the socket at path is the one made, with its mode and owner. It
// differs if the file system has no modes, or if another process with access to the directory has
// replaced it.
func bound(path string, made fs.FileInfo, mode fs.FileMode) error {
	is, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(is, made):
		return errors.New("another process has replaced the socket: choose a directory that only this user can write")
	case is.Mode() != fs.ModeSocket|mode || owner(is) != os.Geteuid():
		return fmt.Errorf("the socket has mode %v and uid %d instead of %v and uid %d: choose a directory on another file system",
			is.Mode(), owner(is), fs.ModeSocket|mode, os.Geteuid())
	}
	return nil
}

// owner returns the uid of a file's owner.
func owner(is fs.FileInfo) int { return int(is.Sys().(*syscall.Stat_t).Uid) }

// replaceable returns an error unless the path does not exist or has an unused socket of this user.
func replaceable(ctx context.Context, path string) error {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.Mode().Type() != fs.ModeSocket:
		return errors.New("the path exists and is not a socket: remove it, or choose another path")
	case owner(is) != os.Geteuid():
		return fmt.Errorf("the path is a socket of another user, uid %d: remove it, or choose another path", owner(is))
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return errors.New("another process listens at this path")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("the path is a socket, and connecting to it failed: %w", err)
	}
	return nil
}

// Addr returns the path that clients connect to.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close ends the listener and removes its path.
func (s *socket) Close() error {
	if is, err := os.Lstat(s.path); err == nil && os.SameFile(is, s.is) {
		_ = os.Remove(s.path) // if this fails, the next gateway replaces it
	}
	return s.Listener.Close()
}
