package peer

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// FilesConfig names the files by which gateways know each other.
type FilesConfig struct {
	Cert string // PEM: this gateway's certificate, and those between it and the CA
	Key  string // PEM: its private key
	CA   string // PEM: whose certificates are believed
	// Allow are the names, each a DNS name, URI or common name, of which another gateway's certificate must have one.
	// None: whoever the CA has signed is a member, so that the CA must sign for nothing else.
	Allow []string

	Changed func(error) // is told of each change of the files: nil where they are in use now, else why the old ones stay
}

// Files are certificates that are read again when their files change: the next connection is made with the new ones,
// those that are open stay. It is safe for concurrent use.
type Files struct {
	cfg FilesConfig

	mu    sync.Mutex // guards what follows
	texts [3][]byte  // of the files as they were last read
	unfit bool       // they do not fit together, and are tried again
	now   *identity  // that they gave when they last fitted together
}

// identity is what one version of the files says.
type identity struct {
	cert tls.Certificate
	ca   *x509.CertPool
}

// NewFiles reads the files and checks them: that they are there, that key and certificate belong together, that the
// certificate is in its time and the CA has signed it. Nothing runs in the background: the files are looked at when a
// connection is made.
func NewFiles(cfg FilesConfig) (*Files, error) {
	f := &Files{cfg: cfg}
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	id, err := cfg.identity(texts, time.Now())
	if err != nil {
		return nil, err
	}
	f.texts, f.now = texts, id
	return f, nil
}

func (f *Files) read() (texts [3][]byte, err error) {
	for i, name := range []string{f.cfg.Cert, f.cfg.Key, f.cfg.CA} {
		what := []string{"certificate", "key", "CA"}[i]
		if name == "" {
			return texts, fmt.Errorf("peer %s: no file is named", what)
		}
		if texts[i], err = os.ReadFile(name); err != nil {
			return texts, fmt.Errorf("peer %s: %w", what, err)
		}
	}
	return texts, nil
}

// identity makes sure that the three texts are of use together.
func (cfg FilesConfig) identity(texts [3][]byte, now time.Time) (*identity, error) {
	cert, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("peer certificate %s with key %s: %w", cfg.Cert, cfg.Key, err)
	}
	ca := x509.NewCertPool()
	if err := addCertificates(ca, texts[2]); err != nil {
		return nil, fmt.Errorf("peer CA %s: %w", cfg.CA, err)
	}
	leaf := cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("peer certificate %s: it expired at %s", cfg.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("peer certificate %s: it begins only at %s", cfg.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := verify(ca, leaf, between(cert), use, now); err != nil {
			return nil, fmt.Errorf("peer certificate %s against CA %s, as a %s's: %w", cfg.Cert, cfg.CA, usage(use), err)
		}
	}
	return &identity{cert: cert, ca: ca}, nil
}

func usage(use x509.ExtKeyUsage) string {
	if use == x509.ExtKeyUsageServerAuth {
		return "server"
	}
	return "client"
}

// addCertificates is AppendCertsFromPEM that says what is wrong.
func addCertificates(pool *x509.CertPool, text []byte) error {
	n := 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return errors.New("no certificate in it")
	}
	return nil
}

func between(cert tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(c)
		}
	}
	return pool
}

func verify(ca *x509.CertPool, leaf *x509.Certificate, middle *x509.CertPool, use x509.ExtKeyUsage, now time.Time) error {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: ca, Intermediates: middle, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

// current returns what the files say now, or what they said when they last fitted together.
func (f *Files) current() *identity {
	texts, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	same := slices.EqualFunc(texts[:], f.texts[:], bytes.Equal)
	if same && !f.unfit {
		return f.now
	}
	var id *identity
	if err == nil {
		id, err = f.cfg.identity(texts, time.Now())
	}
	if f.cfg.Changed != nil && (!same || err == nil) {
		f.cfg.Changed(err)
	}
	f.texts, f.unfit = texts, err != nil
	if id != nil {
		f.now = id
	}
	return f.now
}

// Expires returns until when the certificate that is in use is good.
func (f *Files) Expires() time.Time { return f.current().cert.Leaf.NotAfter }

// Server returns the settings of a server: TLS 1.3, and a certificate is demanded of whoever comes.
func (f *Files) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.server(f.current()), nil },
	}
}

func (f *Files) server(id *identity) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              id.ca,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // connections are kept: a ticket would only outlive a change of the files
		VerifyConnection:       func(state tls.ConnectionState) error { return f.cfg.allowed(state.PeerCertificates[0]) },
	}
}

// Client returns the settings of a client: TLS 1.3, this gateway's certificate, and a server that the CA has signed and
// Allow names. The address is not compared: gateways are dialed by address, and known by name.
func (f *Files) Client() *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &f.current().cert, nil },
		InsecureSkipVerify:   true, // VerifyConnection does it, but for the address
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the peer shows no certificate")
			}
			leaf, middle := state.PeerCertificates[0], x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				middle.AddCert(c)
			}
			if err := verify(f.current().ca, leaf, middle, x509.ExtKeyUsageServerAuth, time.Now()); err != nil {
				return fmt.Errorf("the peer's certificate: %w", err)
			}
			return f.cfg.allowed(leaf)
		},
	}
}

// allowed reports whether a certificate that is good has one of the names.
func (cfg FilesConfig) allowed(cert *x509.Certificate) error {
	if len(cfg.Allow) == 0 {
		return nil
	}
	names := namesOf(cert)
	for _, name := range names {
		if slices.ContainsFunc(cfg.Allow, func(a string) bool { return strings.EqualFold(a, name) }) {
			return nil
		}
	}
	return fmt.Errorf("the peer's certificate is for %.300q, and none of these is allowed", names)
}
