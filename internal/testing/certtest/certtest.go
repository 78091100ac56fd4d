// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/certs"
)

// Authority signs the certificates of one test.
type Authority struct {
	File string // its own certificate, PEM
	Cert *x509.Certificate

	key *ecdsa.PrivateKey
}

// New makes an authority, with its certificate in a new directory.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.crt"), key: newKey(t)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.Cert = template // the certificate signs itself
	der := a.sign(t, template, &a.key.PublicKey)
	var err error
	if a.Cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	put(t, a.File, "CERTIFICATE", der)
	return a
}

// Pool returns a pool of only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// Issue writes a new certificate and its key to a directory. By default the certificate is for
// localhost and 127.0.0.1, for both ends of a connection, and valid for a day. change may alter
// that.
func (a *Authority) Issue(t testing.TB, dir string, change func(*x509.Certificate)) certs.Config {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := certs.Config{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: a.File}
	put(t, cfg.Cert, "CERTIFICATE", a.sign(t, template, &key.PublicKey))
	put(t, cfg.Key, "PRIVATE KEY", secret)
	return cfg
}

func (a *Authority) sign(t testing.TB, c *x509.Certificate, public *ecdsa.PublicKey) []byte {
	t.Helper()
	var err error
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		t.Fatal(err)
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.Cert, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func put(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
