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

// mostOfPath is how long the path of a Unix socket may be on every system: macOS takes 104 bytes, the zero at its end included.
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

// Addresses divides a list of addresses with commas between them.
func Addresses(list string) []string { return strings.Split(list, ",") }

// hasSocket reports whether one of a list of addresses is that of a Unix socket.
func hasSocket(list string) bool {
	return slices.ContainsFunc(Addresses(list), func(address string) bool { return SocketOf(address) != "" })
}

// writePorts replaces a file by the addresses at which clients reach the listeners, one per line: HOST:PORT, or unix:PATH. Readers see the
// old file or the whole new one, and only this user may read it.
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
		_ = os.Remove(f.Name()) // the error says enough
	}
	return err
}

// privateMode is that of a Unix socket which only its user reaches.
const privateMode fs.FileMode = 0o600

// Private reports whether a Unix socket of this mode lets nobody connect but its user. 0 stands for 0600.
func Private(mode fs.FileMode) bool { return mode&0o066 == 0 }

// Listen binds an address, HOST:PORT or unix:PATH with a mode. An error names it.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	l, err := Bind(ctx, address, mode)
	if errors.Is(err, syscall.EADDRINUSE) && SocketOf(address) == "" {
		return nil, fmt.Errorf("listen on %s: the port is in use: end the process that uses it, or choose another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %v", address, err) //nolint:errorlint // no store: the exit code must not say so
	}
	return l, nil
}

// CheckPorts fails if a TCP port of a gateway is in use. It leaves none bound: clients see the gateway once its datasets are open.
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

// Bind binds an address, HOST:PORT or unix:PATH with a mode; 0 stands for 0600.
func Bind(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	if path := SocketOf(address); path != "" {
		return bindSocket(ctx, path, cmp.Or(mode, privateMode))
	}
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}}
	return lc.Listen(ctx, "tcp", address)
}

// socket listens at a path. Closing it removes the path, if that is still its own.
type socket struct {
	net.Listener
	path string
	is   fs.FileInfo
}

// bindSocket makes a Unix socket of a mode. It takes the place of one of this user's that nobody listens on any more. The socket is
// bound under another name and then renamed: so nobody can connect to it before its mode is set, and two gateways that begin at once
// do not remove each other's.
func bindSocket(ctx context.Context, path string, mode fs.FileMode) (_ net.Listener, err error) {
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if len(fresh) > mostOfPath {
		return nil, fmt.Errorf("the path of a Unix socket may have %d bytes, with a process number behind it, and this one has %d: choose a shorter one", mostOfPath, len(fresh))
	}
	if err := replaceable(ctx, path); err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(filepath.Dir(path)) // a link that is put in the socket's place leads nowhere else
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
			_ = dir.Remove(own) // it is not there any more once it has its name
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

// bound refuses a socket that is not the one which was made, or not as it was made: the file system has no modes, or whoever else may
// write to the directory has put something else there.
func bound(path string, made fs.FileInfo, mode fs.FileMode) error {
	is, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(is, made):
		return errors.New("another process has put something else there: choose a directory where only this user may write")
	case is.Mode() != fs.ModeSocket|mode || owner(is) != os.Geteuid():
		return fmt.Errorf("the socket has mode %v and uid %d instead of %v and uid %d: choose a directory on another file system",
			is.Mode(), owner(is), fs.ModeSocket|mode, os.Geteuid())
	}
	return nil
}

// owner is the uid to which a file belongs.
func owner(is fs.FileInfo) int { return int(is.Sys().(*syscall.Stat_t).Uid) }

// replaceable refuses a path at which something lies that is in use, is no socket, or is another user's.
func replaceable(ctx context.Context, path string) error {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.Mode().Type() != fs.ModeSocket:
		return errors.New("something else than a socket lies there: remove it, or choose another path")
	case owner(is) != os.Geteuid():
		return fmt.Errorf("a socket of another user lies there, of uid %d: remove it, or choose another path", owner(is))
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return errors.New("another process listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("a socket lies there, and whether somebody listens cannot be told: %w", err)
	}
	return nil
}

// Addr is the path that clients know.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close ends the listener and removes its path.
func (s *socket) Close() error {
	if is, err := os.Lstat(s.path); err == nil && os.SameFile(is, s.is) {
		_ = os.Remove(s.path) // else the next gateway takes its place
	}
	return s.Listener.Close()
}
