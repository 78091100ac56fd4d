package certs_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestNew_RefusesInvalidFiles gives each kind of certificate a set of files with one fault.
func TestNew_RefusesInvalidFiles(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	uses := func(all ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = all }
	}
	for _, c := range []struct {
		name       string
		issued     func(*x509.Certificate)
		change     func(certs.Config) certs.Config
		peer, port string // expected in the error; "": no error
	}{
		{name: "as it should be"},
		{
			name: "no key named", change: func(c certs.Config) certs.Config { c.Key = ""; return c },
			peer: "peer key: the name of the file is missing", port: "TLS key: the name of the file is missing",
		},
		{name: "no CA named", change: func(c certs.Config) certs.Config { c.CA = ""; return c }, peer: "peer CA: the name of the file is missing"},
		{
			name: "no such CA", change: func(c certs.Config) certs.Config { c.CA += "x"; return c },
			peer: "peer CA: stat CA: no such file", port: "client CA: stat CA: no such file",
		},
		{
			name: "another's key", change: func(c certs.Config) certs.Config { c.Key = ours.Issue(t, t.TempDir(), nil).Key; return c },
			peer: "peer certificate CERT with key KEY: tls: private key does not match public key",
			port: "TLS certificate CERT with key KEY: tls: private key does not match public key",
		},
		{
			name: "another CA", change: func(c certs.Config) certs.Config { c.CA = theirs.File; return c },
			peer: "verify peer certificate CERT with CA CA, as a server's: x509: certificate signed by unknown authority",
		},
		{
			name: "a CA that is a key", change: func(c certs.Config) certs.Config { c.CA = c.Key; return c },
			peer: "peer CA KEY: the file contains no certificate", port: "client CA KEY: the file contains no certificate",
		},
		{
			name: "a certificate that is a key", change: func(c certs.Config) certs.Config { c.Cert = c.Key; return c },
			peer: "peer certificate KEY with key KEY: tls: failed to find certificate PEM data",
			port: "TLS certificate KEY with key KEY: tls: failed to find certificate PEM data",
		},
		{
			name: "a directory", change: func(c certs.Config) certs.Config { c.Key = filepath.Dir(c.Key); return c },
			peer: "must be a regular file", port: "must be a regular file",
		},
		{
			name: "expired", issued: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
			peer: "peer certificate CERT: it expired at 20", port: "TLS certificate CERT: it expired at 20",
		},
		{
			name: "not yet begun", issued: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) },
			peer: "peer certificate CERT: it is valid only from 20", port: "TLS certificate CERT: it is valid only from 20",
		},
		{
			name: "a client's alone", issued: uses(x509.ExtKeyUsageClientAuth),
			peer: "as a server's", port: "TLS certificate CERT: its extended key usage does not allow a server",
		},
		{name: "a server's alone", issued: uses(x509.ExtKeyUsageServerAuth), peer: "as a client's"},
		{name: "for anything", issued: uses(x509.ExtKeyUsageAny)},
		{name: "no word of its use", issued: uses()},
	} {
		cfg := ours.Issue(t, t.TempDir(), c.issued)
		if c.change != nil {
			cfg = c.change(cfg)
		}
		short := strings.NewReplacer(cmp.Or(cfg.Key, "none"), "KEY", cfg.Cert, "CERT", cmp.Or(cfg.CA, "none"), "CA")
		check := func(use, want string, err error) {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(short.Replace(err.Error()), want)) {
				t.Errorf("%s: %s: got %v, want %q in it", c.name, use, err, want)
			}
		}
		_, err := certs.NewPeer(cfg, nil)
		check("peer", c.peer, err)
		_, err = certs.NewPort(cfg)
		check("port", c.port, err)
	}
}

// listener accepts TLS connections with these settings until the test ends, and closes each after
// its handshake.
func listener(t *testing.T, served *tls.Config) (address string) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", served)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if err := c.(*tls.Conn).HandshakeContext(context.Background()); err == nil {
				state := c.(*tls.Conn).ConnectionState()
				from := ""
				if state.DidResume {
					from = " of an earlier connection"
				}
				fmt.Fprintf(c, "%d%s", len(state.VerifiedChains), from)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return ln.Addr().String()
}

// meet makes a connection, and returns the serial number of the server's certificate and the text
// that the server sends.
func meet(t *testing.T, address string, client *tls.Config) (serial *big.Int, said string, err error) {
	t.Helper()
	c, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	text := make([]byte, 100)
	n, err := c.Read(text)
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber, string(text[:n]), err
}

// serialIn returns the serial number of the certificate in a file.
func serialIn(t *testing.T, cfg certs.Config) *big.Int {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber
}

func put(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNewFilesAreUsedAtOnce follows a port through renewals, with invalid contents in between.
func TestNewFilesAreUsedAtOnce(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cfg := ca.Issue(t, dir, nil)
	var told []error
	cfg.Changed = func(err error) { told = append(told, err) }
	port, err := certs.NewPort(cfg)
	if err != nil {
		t.Fatal(err)
	}
	address := listener(t, port.Server())
	inUse := serialIn(t, cfg)
	meets := func(step string, fault, toldOf int) {
		t.Helper()
		for range 3 {
			serial, _, err := meet(t, address, &tls.Config{RootCAs: ca.Pool()})
			if err != nil || serial.Cmp(inUse) != 0 {
				t.Errorf("%s: got certificate %v and %v, want %v", step, serial, err, inUse)
			}
		}
		if err := port.Fault(); (err != nil) != (fault > 0) {
			t.Errorf("%s: got fault %v, want one: %v", step, err, fault > 0)
		}
		if len(told) != toldOf {
			t.Errorf("%s: Changed was called %d times, want %d: %v", step, len(told), toldOf, told)
		}
	}
	meets("at first", 0, 0)

	first, firstKey := get(t, cfg.Cert), get(t, cfg.Key)
	put(t, cfg.Key, firstKey)
	meets("written again", 0, 0)
	put(t, cfg.Key, firstKey[:len(firstKey)/2])
	meets("half a key", 1, 1)
	if err := os.Remove(cfg.Key); err != nil {
		t.Fatal(err)
	}
	meets("no key", 1, 2)
	if !errors.Is(told[1], fs.ErrNotExist) {
		t.Errorf("without a key: got %v, want %v", told[1], fs.ErrNotExist)
	}
	put(t, cfg.Key, firstKey)
	meets("the first key again", 0, 3)

	ca.Issue(t, dir, nil)
	inUse = serialIn(t, cfg)
	meets("a new pair", 0, 4)
	put(t, cfg.Cert, first)
	meets("a wrong pair", 1, 5)
	ca.Issue(t, dir, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })
	meets("expired", 1, 6)
	ca.Issue(t, dir, nil)
	inUse = serialIn(t, cfg)
	meets("a good pair", 0, 7)
	for i, wantFault := range []bool{true, true, false, false, true, true, false} {
		if (told[i] != nil) != wantFault {
			t.Errorf("call %d: got %v, want a fault: %v", i, told[i], wantFault)
		}
	}
	if got, want := time.Until(port.Expires()), 24*time.Hour; got > want || got < want-time.Minute {
		t.Errorf("expiry: got in %v, want %v", got, want)
	}
}

// TestFilesReplacedByLinks: Kubernetes replaces the files of a secret by changing one link. The new
// files are used.
func TestFilesReplacedByLinks(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	past, length := time.Now().Add(-24*time.Hour), 0
	turn := func(name string) certs.Config {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		// Times and lengths of all versions are equal, as in a restored backup. Only the inodes
		// differ. The length of a certificate depends on its signature.
		cfg := ca.Issue(t, filepath.Join(dir, name), nil)
		for length > 0 && len(get(t, cfg.Cert)) != length {
			cfg = ca.Issue(t, filepath.Join(dir, name), nil)
		}
		length = len(get(t, cfg.Cert))
		for _, file := range []string{cfg.Cert, cfg.Key} {
			if err := os.Chtimes(file, past, past); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(dir, "data")
		if err := os.Symlink(name, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
		return certs.Config{Cert: filepath.Join(link, "tls.crt"), Key: filepath.Join(link, "tls.key")}
	}
	cfg := turn("v1")
	port, err := certs.NewPort(cfg)
	if err != nil {
		t.Fatal(err)
	}
	address := listener(t, port.Server())
	for _, name := range []string{"v2", "v3"} {
		turn(name)
		serial, _, err := meet(t, address, &tls.Config{RootCAs: ca.Pool()})
		if want := serialIn(t, cfg); err != nil || serial.Cmp(want) != 0 {
			t.Errorf("%s: got certificate %v and %v, want %v", name, serial, err, want)
		}
	}
}

// TestWritesWithinOneTickAreSeen: two contents of one length, written within one tick of the file
// system's clock, leave the same size and time. The second one is used.
func TestWritesWithinOneTickAreSeen(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cfg := ca.Issue(t, dir, nil)
	now := time.Now()
	same := func() {
		if err := os.Chtimes(cfg.Key, now, now); err != nil {
			t.Fatal(err)
		}
	}
	same()
	port, err := certs.NewPort(cfg)
	if err != nil {
		t.Fatal(err)
	}
	key := get(t, cfg.Key)
	key[len("-----BEGIN")] ^= 1
	put(t, cfg.Key, key)
	same()
	if port.Fault() == nil {
		t.Error("a key with a wrong byte: got no fault, want one")
	}
}

// TestFiles_UseCertificateOnceValid: a certificate is used once it has become valid, although its
// files have not changed since they were refused.
func TestFiles_UseCertificateOnceValid(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ca, dir := certtest.New(t), t.TempDir()
		port, err := certs.NewPort(ca.Issue(t, dir, nil))
		if err != nil {
			t.Fatal(err)
		}
		begins := time.Now().Add(time.Minute).Truncate(time.Second) // certificates have whole seconds
		ca.Issue(t, dir, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = begins, begins.Add(time.Hour) })
		if port.Fault() == nil {
			t.Error("before its time: got no fault, want one")
		}
		time.Sleep(time.Until(begins))
		if err := port.Fault(); err != nil || !port.Expires().Equal(begins.Add(time.Hour)) {
			t.Errorf("in its time: got %v and an end at %v, want the new certificate", err, port.Expires())
		}
	})
}

// TestClientCertificates: a client may present no certificate, or a valid one.
func TestClientCertificates(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	shows := func(ca *certtest.Authority, change func(*x509.Certificate)) []tls.Certificate {
		cfg := ca.Issue(t, t.TempDir(), change)
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{pair}
	}
	for _, c := range []struct {
		name  string
		shown []tls.Certificate
		want  string // number of chains that the server has verified, or the error
	}{
		{"none", nil, "0"},
		{"one of ours", shows(ours, nil), "1"},
		{"another CA's", shows(theirs, nil), "unknown certificate authority"},
		{"expired", shows(ours, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired certificate"},
		{"a server's", shows(ours, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "bad certificate"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			port, err := certs.NewPort(ours.Issue(t, t.TempDir(), nil))
			if err != nil {
				t.Fatal(err)
			}
			// GetClientCertificate presents certificates even if the server did not ask
			// for them.
			client := &tls.Config{RootCAs: ours.Pool(), MaxVersion: version, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if c.shown == nil {
					return &tls.Certificate{}, nil
				}
				return &c.shown[0], nil
			}}
			_, said, err := meet(t, listener(t, port.Server()), client)
			if said != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, TLS %x: got %q and %v, want %q", c.name, version, said, err, c.want)
			}
		}
	}
	// Without a client CA, the server asks no client for a certificate.
	cfg := ours.Issue(t, t.TempDir(), nil)
	cfg.CA = ""
	port, err := certs.NewPort(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: ours.Pool(), Certificates: shows(ours, nil)}
	if _, said, err := meet(t, listener(t, port.Server()), client); said != "0" {
		t.Errorf("without a client CA: got %q and %v, want no chain", said, err)
	}
}

// TestPort_ResumedSessionNeedsCurrentCA: a client whose CA has been removed is not authenticated
// when it resumes its session.
func TestPort_ResumedSessionNeedsCurrentCA(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	served, clients := ours.Issue(t, t.TempDir(), nil), filepath.Join(t.TempDir(), "clients.crt")
	put(t, clients, get(t, theirs.File))
	served.CA = clients
	port, err := certs.NewPort(served)
	if err != nil {
		t.Fatal(err)
	}
	address := listener(t, port.Server())
	shown := theirs.Issue(t, t.TempDir(), nil)
	pair, err := tls.LoadX509KeyPair(shown.Cert, shown.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		put(t, clients, get(t, theirs.File))
		client := &tls.Config{
			RootCAs: ours.Pool(), Certificates: []tls.Certificate{pair}, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(4), ServerName: "localhost",
		}
		for range 2 {
			if _, said, err := meet(t, address, client); said != "1" {
				t.Errorf("TLS %x: got %q and %v, want one chain", version, said, err)
			}
		}
		put(t, clients, get(t, ours.File))
		if _, said, err := meet(t, address, client); err == nil && said != "0" {
			t.Errorf("TLS %x, with another client CA: got %q, want the client unknown", version, said)
		}
	}
}

// TestPort_Protocols: a port supports TLS 1.2 and 1.3, and only HTTP/1.1, regardless of the
// client's offer.
func TestPort_Protocols(t *testing.T) {
	ca := certtest.New(t)
	port, err := certs.NewPort(ca.Issue(t, t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	address := listener(t, port.Server())
	for _, c := range []struct {
		version uint16
		offered []string
		want    string
	}{
		{tls.VersionTLS10, nil, "protocol version not supported"},
		{tls.VersionTLS11, nil, "protocol version not supported"},
		{tls.VersionTLS12, []string{"h2", "http/1.1"}, "http/1.1"},
		{tls.VersionTLS13, []string{"h2", "http/1.1"}, "http/1.1"},
		{tls.VersionTLS13, nil, ""},
		{tls.VersionTLS13, []string{"h2"}, "no application protocol"},
	} {
		client := &tls.Config{RootCAs: ca.Pool(), MinVersion: c.version, MaxVersion: c.version, NextProtos: c.offered}
		conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("TLS %x, %v: got %v, want %q", c.version, c.offered, err, c.want)
			}
			continue
		}
		state := conn.(*tls.Conn).ConnectionState()
		conn.Close()
		if state.Version != c.version || state.NegotiatedProtocol != c.want {
			t.Errorf("TLS %x, %v: got TLS %x and %q, want %q", c.version, c.offered, state.Version, state.NegotiatedProtocol, c.want)
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	ca := certtest.New(b)
	port, err := certs.NewPort(ca.Issue(b, b.TempDir(), nil))
	if err != nil {
		b.Fatal(err)
	}
	fixed, err := port.Server().GetConfigForClient(nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, served := range map[string]*tls.Config{"files": port.Server(), "fixed": fixed} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				here, there := net.Pipe()
				client := tls.Client(here, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
				done := make(chan error, 1)
				go func() { done <- client.HandshakeContext(b.Context()) }()
				if err := errors.Join(tls.Server(there, served).HandshakeContext(b.Context()), <-done); err != nil {
					b.Fatal(err)
				}
				here.Close()
				there.Close()
			}
		})
	}
}
