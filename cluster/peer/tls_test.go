package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// issue writes the files of a certificate. The certificate is for b.gateways unless change alters
// it.
func issue(t testing.TB, a *certtest.Authority, change func(*x509.Certificate)) certs.Config {
	t.Helper()
	return a.Issue(t, t.TempDir(), func(c *x509.Certificate) {
		c.DNSNames = []string{"b.gateways"}
		if change != nil {
			change(c)
		}
	})
}

func files(t testing.TB, cfg certs.Config, allow ...string) *certs.Peer {
	t.Helper()
	f, err := certs.NewPeer(cfg, allow)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pairOf(t *testing.T, cfg certs.Config) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// journal is a log whose lines the test reads while the server runs.
type journal struct{ lines chan string }

func (j journal) Write(p []byte) (int, error) {
	j.lines <- string(p)
	return len(p), nil
}

// await waits for a log line that contains the words.
func (j journal) await(words string) {
	for line := range j.lines {
		if strings.Contains(line, words) {
			return
		}
	}
}

func TestTLS_AcceptedCertificates(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	spiffe := &url.URL{Scheme: "spiffe", Host: "job-a", Path: "/gateway"}
	named := func(change func(*x509.Certificate)) *tls.Config {
		return files(t, issue(t, ours, change)).Client()
	}
	bare := func(change func(*tls.Config)) *tls.Config {
		cfg := named(nil)
		change(cfg)
		return cfg
	}
	expired := func() *tls.Config {
		cfg := issue(t, ours, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		pair := pairOf(t, cfg)
		return bare(func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		})
	}
	nobody := func(c *tls.Config) { c.GetClientCertificate, c.Certificates = nil, nil }
	foreign := func(c *tls.Config) {
		other := pairOf(t, issue(t, theirs, nil))
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	}
	cfg := issue(t, ours, nil)
	s := newShelf(1, 100)
	log := journal{make(chan string, 100)}
	server := serverOf(s)
	server.TLS, server.Log = files(t, cfg, "B.gateways", spiffe.String(), "old name").Server(), zerolog.New(log)
	address := start(t, server)
	for _, c := range []struct {
		name   string
		client *tls.Config
		in     string // expected in the server's log; "": the question is answered
	}{
		{"a member", named(nil), ""},
		{"a member by URI", named(func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, []*url.URL{spiffe} }), ""},
		{"a member by common name", named(func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "old name" }), ""},
		{"signed, but somebody else", named(func(c *x509.Certificate) { c.DNSNames = []string{"web.example"} }), "allows none of these names"},
		{"signed, without a name", named(func(c *x509.Certificate) { c.DNSNames = nil }), "allows none of these names"},
		{"no certificate", bare(nobody), "client didn't provide a certificate"},
		{"another CA's", bare(foreign), "unknown authority"},
		{"expired", expired(), "expired"},
		{"an old protocol", bare(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "unsupported versions"},
		{"no TLS", nil, "HTTP request to an HTTPS server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, dst, want := s.question(1, 50)
			err := asker(t, func(cfg *ClientConfig) { cfg.TLS = c.client }).Read(t.Context(), address, q, dst)
			switch {
			case c.in == "" && err == nil:
				same(t, dst, want)
			case c.in == "":
				t.Errorf("got %v, want an answer", err)
			case err == nil:
				t.Error("got an answer, want none")
			case c.client == nil:
				if !strings.Contains(err.Error(), c.in) {
					t.Errorf("got %v, want %q in it", err, c.in)
				}
			case !errors.Is(err, ErrDown):
				t.Errorf("got %v, want %v", err, ErrDown)
			default:
				log.await(c.in)
			}
		})
	}
	if len(s.asked) != 3 {
		t.Errorf("questions answered: got %d, want those of 3 members", len(s.asked))
	}
}

// TestTLS_AcceptedServers: the asker checks the server's certificate in the same way.
func TestTLS_AcceptedServers(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	client := files(t, issue(t, ours, nil), "b.gateways").Client()
	q, dst, _ := newShelf(1, 100).question(1, 50)
	for _, c := range []struct {
		name   string
		server *tls.Config
		want   string
	}{
		{"a member", files(t, issue(t, ours, nil)).Server(), ""},
		{"another CA's", func() *tls.Config {
			// The server also trusts our CA, so that it accepts the asker's
			// certificate.
			served, err := files(t, issue(t, theirs, nil)).Server().GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			served.ClientCAs.AddCert(ours.Cert)
			return served
		}(), "unknown authority"},
		{"signed, but somebody else", files(t, issue(t, ours, func(c *x509.Certificate) {
			c.DNSNames = []string{"web.example"}
		})).Server(), "allows none of these names"},
		{"no TLS", nil, "server gave HTTP response to HTTPS client"},
	} {
		cfg := serverOf(newShelf(1, 100))
		cfg.TLS = c.server
		err := asker(t, func(cfg *ClientConfig) { cfg.TLS = client }).Read(t.Context(), start(t, cfg), q, dst)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrDown) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q in it", c.name, err, c.want)
		}
	}
}

// TestFilesAreReadAgain: both sides reload a changed CA, certificate and key.
func TestFilesAreReadAgain(t *testing.T) {
	first, second := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	cfg := first.Issue(t, dir, nil)
	cfg.CA = filepath.Join(dir, "ca.crt")
	believe := func(a *certtest.Authority) {
		text, err := os.ReadFile(a.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cfg.CA, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	believe(first)
	f := files(t, cfg)
	s := newShelf(1, 100)
	server := serverOf(s)
	server.TLS = f.Server()
	address := start(t, server)
	q, dst, _ := s.question(1, 50)
	read := func(tlsConfig *tls.Config) error {
		client := asker(t, func(cfg *ClientConfig) { cfg.TLS = tlsConfig })
		defer client.Close()
		return client.Read(t.Context(), address, q, dst)
	}
	old := files(t, issue(t, first, nil)).Client()
	if err := read(old); err != nil {
		t.Fatal(err)
	}
	second.Issue(t, dir, nil)
	if err := read(old); err != nil {
		t.Errorf("with a certificate that the CA has not signed: got %v, want the old one in use", err)
	}
	believe(second)
	if err := read(f.Client()); err != nil {
		t.Errorf("with the new files: %v", err)
	}
	if err := read(old); !errors.Is(err, ErrDown) {
		t.Errorf("with the old files: got %v, want %v", err, ErrDown)
	}
}

// TestNoOtherProtocolIsSpoken: the server accepts only HTTP/1.1. HTTP/2 would allow unlimited
// requests on one connection.
func TestNoOtherProtocolIsSpoken(t *testing.T) {
	f := files(t, issue(t, certtest.New(t), nil))
	cfg := serverOf(newShelf(1, 100))
	cfg.TLS = f.Server()
	address := start(t, cfg)
	offer := f.Client()
	offer.NextProtos = []string{"h2", "http/1.1"}
	conn, err := (&tls.Dialer{Config: offer}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("protocol: got %q, want %q", got, "http/1.1")
	}
}

// countedListener counts the writes of its connections.
type countedListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestRecordsGoToTheKernelTogether: TLS records are buffered and written together. Without
// buffering, TLS would write each record of 16 KiB separately.
func TestRecordsGoToTheKernelTogether(t *testing.T) {
	f := files(t, issue(t, certtest.New(t), nil))
	var writes atomic.Int64
	ln := listen(t)
	s := newShelf(4, 2<<20)
	server := serverOf(s)
	server.TLS = f.Server()
	serve(t, countedListener{ln, &writes}, server)
	client := asker(t, func(cfg *ClientConfig) { cfg.TLS = f.Client() })
	for _, c := range []struct{ ranges, length int }{
		{60, 4000}, {64, 4096}, {60, 4000}, {1, 16 << 10}, {1, 100}, {4, 110_000}, {8, 64 << 10}, {1, 1_000_000}, {1, 1 << 20}, {12, 100_001},
	} {
		q, dst, want := s.question(c.ranges, c.length)
		writes.Store(0)
		if err := client.Read(t.Context(), ln.Addr().String(), q, dst); err != nil {
			t.Fatal(err)
		}
		same(t, dst, want)
		// The first and the last write of a mebibyte are shorter. A handshake or a new key
		// adds writes.
		total := int64(len(dst) * c.length)
		if most := total/(100<<10) + 3*(total>>20) + 8; writes.Load() > most {
			t.Errorf("%d ranges of %d bytes: got %d writes, want %d at most", len(dst), c.length, writes.Load(), most)
		}
	}
}
