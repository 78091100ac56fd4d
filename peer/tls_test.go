package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func pemOf(t testing.TB, kind string, der []byte) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue writes certificate, key and CA to a directory.
func (a authority) issue(t testing.TB, dir string, change func(*x509.Certificate)) FilesConfig {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"b.gateways"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := FilesConfig{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	put(t, cfg.Cert, pemOf(t, "CERTIFICATE", der))
	put(t, cfg.Key, pemOf(t, "PRIVATE KEY", secret))
	put(t, cfg.CA, pemOf(t, "CERTIFICATE", a.cert.Raw))
	return cfg
}

func put(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func files(t testing.TB, cfg FilesConfig) *Files {
	t.Helper()
	f, err := NewFiles(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilesThatDoNotFitAreRefusedAtStart(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, c := range []struct {
		name   string
		issued func(*x509.Certificate)
		change func(FilesConfig) FilesConfig
		want   string
	}{
		{name: "as it should be"},
		{name: "no key named", change: func(c FilesConfig) FilesConfig { c.Key = ""; return c }, want: "peer key: no file is named"},
		{name: "no such CA", change: func(c FilesConfig) FilesConfig { c.CA += "x"; return c }, want: "ca.crtx: no such file"},
		{name: "another's key", change: func(c FilesConfig) FilesConfig {
			c.Key = ours.issue(t, t.TempDir(), nil).Key
			return c
		}, want: "private key does not match public key"},
		{name: "another CA", change: func(c FilesConfig) FilesConfig {
			c.CA = theirs.issue(t, t.TempDir(), nil).CA
			return c
		}, want: "signed by unknown authority"},
		{name: "a CA that is a key", change: func(c FilesConfig) FilesConfig { c.CA = c.Key; return c }, want: "no certificate in it"},
		{name: "a certificate that is a key", change: func(c FilesConfig) FilesConfig { c.Cert = c.Key; return c }, want: "tls.key"},
		{name: "expired", issued: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, want: "it expired at 20"},
		{name: "not yet begun", issued: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, want: "it begins only at 20"},
		{name: "a client's alone", issued: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}, want: "as a server's"},
		{name: "a server's alone", issued: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, want: "as a client's"},
	} {
		cfg := ours.issue(t, t.TempDir(), c.issued)
		if c.change != nil {
			cfg = c.change(cfg)
		}
		_, err := NewFiles(cfg)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q in it", c.name, err, c.want)
		}
	}
}

// journal is a log that a server writes to while the test runs.
type journal struct{ lines chan string }

func (j journal) Write(p []byte) (int, error) {
	j.lines <- string(p)
	return len(p), nil
}

// await returns when a line says so, or not at all.
func (j journal) await(words string) {
	for line := range j.lines {
		if strings.Contains(line, words) {
			return
		}
	}
}

func TestWhoMayAskWhom(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	spiffe := &url.URL{Scheme: "spiffe", Host: "job-a", Path: "/gateway"}
	named := func(change func(*x509.Certificate)) *tls.Config {
		return files(t, ours.issue(t, t.TempDir(), change)).Client()
	}
	bare := func(change func(*tls.Config)) *tls.Config {
		cfg := named(nil)
		change(cfg)
		return cfg
	}
	expired := func() *tls.Config {
		cfg := ours.issue(t, t.TempDir(), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			t.Fatal(err)
		}
		return bare(func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		})
	}
	nobody := func(c *tls.Config) { c.GetClientCertificate, c.Certificates = nil, nil }
	foreign := func(c *tls.Config) {
		other := files(t, theirs.issue(t, t.TempDir(), nil)).current().cert
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	}
	cfg := ours.issue(t, t.TempDir(), nil)
	cfg.Allow = []string{"B.gateways", spiffe.String(), "old name"}
	s := newShelf(1, 100)
	log := journal{make(chan string, 100)}
	server := serverOf(s)
	server.TLS, server.Log = files(t, cfg).Server(), zerolog.New(log)
	address := start(t, server)
	for _, c := range []struct {
		name   string
		client *tls.Config
		in     string // the server's log; "" : it is answered
	}{
		{"a member", named(nil), ""},
		{"a member by URI", named(func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, []*url.URL{spiffe} }), ""},
		{"a member by common name", named(func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "old name" }), ""},
		{"signed, but somebody else", named(func(c *x509.Certificate) { c.DNSNames = []string{"web.example"} }), "none of these is allowed"},
		{"signed, without a name", named(func(c *x509.Certificate) { c.DNSNames = nil }), "none of these is allowed"},
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

// TestWhomAMemberAsks: the asker looks at the server's certificate just so.
func TestWhomAMemberAsks(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	allow := func(cfg FilesConfig) FilesConfig { cfg.Allow = []string{"b.gateways"}; return cfg }
	client := files(t, allow(ours.issue(t, t.TempDir(), nil))).Client()
	q, dst, _ := newShelf(1, 100).question(1, 50)
	for _, c := range []struct {
		name   string
		server *tls.Config
		want   string
	}{
		{"a member", files(t, ours.issue(t, t.TempDir(), nil)).Server(), ""},
		{"another CA's", func() *tls.Config {
			f := files(t, theirs.issue(t, t.TempDir(), nil))
			f.now.ca.AddCert(ours.cert)
			return f.Server()
		}(), "unknown authority"},
		{"signed, but somebody else", files(t, ours.issue(t, t.TempDir(), func(c *x509.Certificate) {
			c.DNSNames = []string{"web.example"}
		})).Server(), "none of these is allowed"},
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

// TestFilesAreReadAgain follows a change of CA, certificate and key on both sides, with a
// half-written one between.
func TestFilesAreReadAgain(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	cfg := first.issue(t, dir, nil)
	var told []error
	cfg.Changed = func(err error) { told = append(told, err) }
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
	old := files(t, first.issue(t, t.TempDir(), nil)).Client()
	if err := read(old); err != nil {
		t.Fatal(err)
	}
	put(t, cfg.Key, []byte("half"))
	for range 2 {
		if err := read(old); err != nil {
			t.Errorf("with half a key in the file: got %v, want the old one in use", err)
		}
	}
	if err := os.Remove(cfg.Key); err != nil {
		t.Fatal(err)
	}
	if err := read(old); err != nil {
		t.Errorf("without a key's file: got %v, want the old one in use", err)
	}
	second.issue(t, dir, nil)
	if err := read(f.Client()); err != nil {
		t.Errorf("with the new files: %v", err)
	}
	if err := read(old); !errors.Is(err, ErrDown) {
		t.Errorf("with the old files: got %v, want %v", err, ErrDown)
	}
	if len(told) != 3 || told[0] == nil || !errors.Is(told[1], fs.ErrNotExist) || told[2] != nil {
		t.Errorf("told of changes: got %v, want a bad key, no key and then none", told)
	}
}

// TestNoOtherProtocolIsSpoken: what HTTP/2 would let one connection ask for has no limits here.
func TestNoOtherProtocolIsSpoken(t *testing.T) {
	f := files(t, newAuthority(t).issue(t, t.TempDir(), nil))
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
