package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestPatternsOfNames compares the names of certificates with patterns, part by part between dots.
func TestPatternsOfNames(t *testing.T) {
	ca := certtest.New(t)
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"gateways-*.gateways.train.svc", "gateways-12.gateways.train.svc", true},
		{"gateways-*.gateways.train.svc", "Gateways-0.GATEWAYS.train.svc", true},
		{"Gateways-*.gateways.train.svc", "gateways-0.gateways.train.svc", true},
		{"gateways-*.gateways.train.svc", "gateways-.gateways.train.svc", true},
		{"gateways-*.gateways.train.svc", "gateways-0.evil.gateways.train.svc", false},
		{"gateways-*.gateways.train.svc", "gateways-0.gateways.train.svc.evil", false},
		{"gateways-*.gateways.train.svc", "x.gateways-0.gateways.train.svc", false},
		{"gateways-*.gateways.train.svc", "gateways-0.gateways.train", false},
		{"gateways-*", "gateways-0.evil", false},
		{"gateways*svc", "gateways.svc", false},
		{"gateways?train.svc", "gateways.train.svc", false},
		{"gateways[!-~]train.svc", "gateways.train.svc", false},
		{"*", "gw-0", true},
		{"*", "gw-0.gateways", false},
		{"*.*", "gw-0.gateways", true},
		{"gw-[0-3]", "gw-2", true},
		{"gw-[0-3]", "gw-4", false},
		{"gw-?", "gw-4", true},
		{"gw-?", "gw-42", false},
		{`gw \*`, "gw *", true},
		{`gw \*`, "gw 1", false},
		{"spiffe://train.example/ns/a/sa/gw-*", "spiffe://train.example/ns/a/sa/gw-1", true},
		{"spiffe://train.example/ns/*/gw", "spiffe://train.example/ns/a/sa/gw", false},
		{"spiffe://*/gw", "spiffe://train.example/gw", false},
	} {
		if err := certs.CheckPattern(c.pattern); err != nil {
			t.Errorf("%s: got %v, want no error", c.pattern, err)
		}
		cfg := ca.Issue(t, t.TempDir(), func(x *x509.Certificate) {
			x.DNSNames = nil
			if u, err := url.Parse(c.name); err == nil && u.Scheme != "" {
				x.URIs = []*url.URL{u}
			} else {
				x.Subject.CommonName = c.name
			}
		})
		member, err := certs.NewPeer(cfg, []string{"none", c.pattern})
		if err != nil {
			t.Fatal(err)
		}
		leaf := member.Leaf()
		err = member.Client().VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
		if got := err == nil; got != c.want {
			t.Errorf("%q by %q: got allowed %v (%v), want %v", c.name, c.pattern, got, err, c.want)
		}
	}
}

func TestMalformedPatternsAreRefused(t *testing.T) {
	for _, pattern := range []string{"", "gw-[", "gw-[0-", "gw-[0.3].x", "gw-[]", `gw.x\`, `gw\.x`} {
		err := certs.CheckPattern(pattern)
		if err == nil || pattern != "" && !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%q: got %v, want an error", pattern, err)
		}
	}
}

// TestPeer_BelievesClientsOf: authorities are compared by the certificates that they have signed,
// not by the names of their files.
func TestPeer_BelievesClientsOf(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	peer, err := certs.NewPeer(ours.Issue(t, t.TempDir(), nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	signs := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}
	below := ours.Issue(t, t.TempDir(), signs).Cert
	copied := filepath.Join(t.TempDir(), "clients.crt")
	put(t, copied, append(get(t, theirs.File), get(t, ours.File)...))
	for _, c := range []struct {
		name, file string
		want       bool
	}{
		{"no clients", "", false},
		{"another authority", theirs.File, false},
		{"the same file", ours.File, true},
		{"a copy beside another authority", copied, true},
		{"an authority that ours has signed", below, true},
	} {
		cfg := theirs.Issue(t, t.TempDir(), nil)
		cfg.CA = c.file
		port, err := certs.NewPort(cfg)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := peer.BelievesClientsOf(port.Files); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
