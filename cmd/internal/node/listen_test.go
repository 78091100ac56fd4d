package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestListen_UnixSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	ln, err := Listen(t.Context(), "unix:"+path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := os.Lstat(path); err != nil || is.Mode() != os.ModeSocket|0o600 {
		t.Errorf("got %v, %v, want a socket for this user only", is.Mode(), err)
	}
	if ln.Addr().Network() != "unix" || ln.Addr().String() != path {
		t.Errorf("unexpected address %s", ln.Addr())
	}
	if _, err := Listen(t.Context(), "unix:"+path, 0); err == nil || !strings.Contains(err.Error(), "another process listens at this path") {
		t.Errorf("got %v, want an error", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Errorf("files not removed: %v, %v", left, err)
	}
}

// TestListen_ReplacesOnlyStaleSockets: Listen replaces the socket of a killed process, and no other
// file or socket.
func TestListen_ReplacesOnlyStaleSockets(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	dead, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	ln, err := Listen(t.Context(), "unix:"+path, 0)
	if err != nil {
		t.Fatal(err)
	}
	next, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path+"2")
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := os.Rename(path+"2", path); err != nil { // as another gateway would do
		t.Fatal(err)
	}
	ln.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another process was removed: %v", err)
	}
	for name, make := range map[string]func(string) error{
		"a file":             func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a directory":        func(p string) error { return os.Mkdir(p, 0o700) },
		"a link to a socket": func(p string) error { return os.Symlink(path, p) },
		"a link to a file":   func(p string) error { return os.Symlink("/etc/passwd", p) },
		"a link to nothing":  func(p string) error { return os.Symlink("nothing", p) },
	} {
		p := filepath.Join(shortDir(t), "s")
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(t.Context(), "unix:"+p, 0); err == nil || !strings.Contains(err.Error(), "exists and is not a socket") {
			t.Errorf("%s: got %v, want an error", name, err)
		}
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("%s was removed", name)
		}
	}
	if _, err := Listen(t.Context(), "unix:/"+strings.Repeat("x", 120), 0); err == nil || !strings.Contains(err.Error(), "choose a shorter path") {
		t.Errorf("got %v, want an error about the length", err)
	}
}

// TestRun_ServesWhileLocked: the node serves over its socket while a process holds the lock, and
// exits when none does. A process that requests the lock meanwhile gets it after the socket is
// removed.
func TestRun_ServesWhileLocked(t *testing.T) {
	dir := shortDir(t)
	lock, at := filepath.Join(dir, "users"), filepath.Join(dir, "s")
	const linger = 300 * time.Millisecond
	r := newRig(t, "  a: "+dataset(t)+"\n", func(c *Config) {
		c.Listen, c.WhileLocked, c.Linger, c.LameDuck = "unix:"+at, lock, linger, time.Hour
	})
	defer r.Close()
	user, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if err := syscall.Flock(int(user.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.Run(t.Context(), func(net.Addr) { close(ready) }) }()
	<-ready
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	}}}
	time.Sleep(linger + 2*lockInterval)
	for _, path := range []string{"/readyz", batchOf("a"), "/metrics"} {
		a, err := client.Get("http://localhost" + path)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %v, %v while the lock is held", path, a, err)
		}
		a.Body.Close()
	}
	for path, want := range map[string]int{"/readyz": http.StatusOK, batchOf("a"): http.StatusMisdirectedRequest} { // probes may name any host
		a, err := client.Get("http://elsewhere" + path)
		if err != nil || a.StatusCode != want {
			t.Fatalf("%s of another host: got %v, %v, want %d", path, a, err, want)
		}
		a.Body.Close()
	}
	if err := syscall.Flock(int(user.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	next, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := syscall.Flock(int(next.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("got %v, want the lock held by the node until it is closed", err)
	}
	if _, err := os.Lstat(at); err == nil {
		t.Error("the socket was not removed")
	}
	r.Close()
	if err := syscall.Flock(int(next.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		t.Errorf("got %v after the end", err)
	}
}

// TestReload_OneDatasetIgnoresOthers: a reload of one dataset succeeds even if the store of another
// one fails.
func TestReload_OneDatasetIgnoresOthers(t *testing.T) {
	a, b := dataset(t), dataset(t)
	r := newRig(t, "  a: "+a+"\n", nil)
	defer r.Close()
	if err := os.RemoveAll(a); err != nil {
		t.Fatal(err)
	}
	r.write("  a: " + a + "\n  b: " + b + "\n")
	for _, want := range []string{"[a none b new]", "[a none b none]"} {
		all, err := r.Reload(t.Context(), "b")
		if got := "[" + strings.Join(said(all), " ") + "]"; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	grow(t, b, "more.txt")
	if all, err := r.Reload(t.Context(), "b"); err != nil || strings.Join(said(all), " ") != "a none b generation" {
		t.Errorf("got %v, %v, want the new generation of b", said(all), err)
	}
	if _, err := r.Reload(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), `dataset "c" is neither in the flags`) {
		t.Errorf("got %v, want an error", err)
	}
	if _, err := r.Reload(t.Context(), ""); err == nil {
		t.Error("got no error for the removed dataset")
	}
}
