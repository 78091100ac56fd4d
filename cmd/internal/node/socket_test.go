package node

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestRun_TLSOnTCPAndPlainHTTPOnSocket: a gateway with TLS serves HTTPS on TCP and plain HTTP on its socket, and closes both.
func TestRun_TLSOnTCPAndPlainHTTPOnSocket(t *testing.T) {
	path, ca := filepath.Join(shortDir(t), "s"), certtest.New(t)
	ports := filepath.Join(t.TempDir(), "ports")
	if err := os.WriteFile(ports, []byte("127.0.0.1:1\n"), 0o666); err != nil { // file of an earlier gateway
		t.Fatal(err)
	}
	files := ca.Issue(t, t.TempDir(), nil)
	r := newRig(t, "  a: "+dataset(t)+"\n", func(c *Config) {
		c.Listen, c.TLSCert, c.TLSKey, c.PortFile = "127.0.0.1:0,unix:"+path, files.Cert, files.Key, ports
	})
	defer r.Close()
	var tcp string
	if err := r.During(t.Context(), func(_ context.Context, at net.Addr) error {
		tcp = at.String()
		text, err := os.ReadFile(ports)
		if is, fault := os.Stat(ports); errors.Join(err, fault) != nil || is.Mode() != 0o600 || string(text) != tcp+"\nunix:"+path+"\n" {
			t.Errorf("port-file: got %q (%v), want both addresses, readable only by this user", text, errors.Join(err, fault))
		}
		for base, dial := range map[string]func(context.Context) (net.Conn, error){
			"https://" + tcp:   func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", tcp) },
			"http://localhost": func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) },
		} {
			client := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			}}
			answer, err := client.Get(base + batchOf("a"))
			if err != nil {
				return err
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusOK || (answer.TLS != nil) != strings.HasPrefix(base, "https") {
				t.Errorf("%s: got %s, TLS: %v", base, answer.Status, answer.TLS != nil)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"url":"https://` + tcp + `/","listen":"` + tcp + `","tls":true,"message":"serving"`, `"url":"","listen":"` + path + `","tls":false,"message":"serving"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log.String())
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket was not removed")
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", tcp); err == nil {
		c.Close()
		t.Error("the TCP port is still open")
	}
}

// TestRun_BusyAddressReleasesOthers: if an address is busy, Run releases the addresses that it has
// bound before.
func TestRun_BusyAddressReleasesOthers(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	r := newRig(t, "  a: "+dataset(t)+"\n", func(c *Config) { c.Listen = "unix:" + path + "," + busy.Addr().String() })
	defer r.Close()
	if err := r.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "listen on "+busy.Addr().String()) {
		t.Errorf("got %v, want an error that names the address", err)
	}
	r = newRig(t, "  a: "+dataset(t)+"\n", func(c *Config) { c.Listen, c.PortFile = "unix:"+path, "/no/such/dir/ports" })
	defer r.Close()
	if err := r.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "write port-file: open /no/such/dir/ports") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket was not removed")
	}
}

// TestListen_SocketMode: the socket has the requested mode with any umask. bound detects a wrong
// mode or a replaced file.
func TestListen_SocketMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o666, 0o777} {
		path := filepath.Join(shortDir(t), "s")
		ln, err := Listen(t.Context(), "unix:"+path, mode)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		is, err := os.Lstat(path)
		if err != nil || is.Mode() != fs.ModeSocket|mode {
			t.Fatalf("got %v, %v, want a socket of mode %v", is.Mode(), err, mode)
		}
		if err := bound(path, is, mode); err != nil {
			t.Error(err)
		}
		if err := bound(path, is, mode^0o002); err == nil || !strings.Contains(err.Error(), "another file system") {
			t.Errorf("got %v for another mode, want an error", err)
		}
		if err := os.Rename(path, path+"2"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path+"2", path); err != nil {
			t.Fatal(err)
		}
		if err := bound(path, is, mode); err == nil || !strings.Contains(err.Error(), "another process has replaced the socket") {
			t.Errorf("got %v for a link in its place, want an error", err)
		}
	}
}

// TestListen_KeepsSocketOfAnotherUser: Listen does not replace the socket of another user, even if
// no process listens at it.
func TestListen_KeepsSocketOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone can give a socket away")
	}
	path := filepath.Join(shortDir(t), "s")
	dead, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	if err := os.Lchown(path, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	is, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := bound(path, is, is.Mode().Perm()); err == nil || !strings.Contains(err.Error(), "uid 4711 instead") {
		t.Errorf("got %v, want an error about the owner", err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, 0); err == nil || !strings.Contains(err.Error(), "the path is a socket of another user, uid 4711") {
		t.Errorf("got %v, want an error", err)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(is, now) {
		t.Errorf("the socket was removed: %v", err)
	}
}

// TestAllowed_AdminOnlyAtPrivateAddresses: clients have no right to statistics if all users or
// other machines can reach the address.
func TestAllowed_AdminOnlyAtPrivateAddresses(t *testing.T) {
	for _, c := range []struct {
		listen string
		mode   fs.FileMode
		want   bool
	}{
		{"127.0.0.1:0", 0, true},
		{"unix:/s", 0, true},
		{"127.0.0.1:0,unix:/s", 0o600, true},
		{"127.0.0.1:0", 0o666, true},
		{"unix:/s", 0o666, false},
		{"127.0.0.1:0,unix:/s", 0o660, false},
		{"unix:/s,0.0.0.0:0", 0, false},
		{"0.0.0.0:0,unix:/s", 0, false},
	} {
		s := &Node{cfg: &Config{Listen: c.listen, SocketMode: c.mode}}
		if got := len(s.allowed()) == 2; got != c.want {
			t.Errorf("%s, mode %v: got %v, want %v", c.listen, c.mode, got, c.want)
		}
	}
}
