package auth

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// certificate returns a certificate with the names, in the form that TLS passes on.
func certificate(t testing.TB, template x509.Certificate) *x509.Certificate {
	t.Helper()
	key := newEC(t, "").key
	template.SerialNumber, template.NotAfter = big.NewInt(1), newClock().Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert
}

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u
}

const certificatesFile = `
grants:
  - {who: ["certificate:Ops.Example"], rights: [admin]}
  - {who: ["certificate:spiffe://corp/Train"], datasets: [photos], rights: [read]}
  - {who: ["certificate:Alice@corp.example"], datasets: [text], rights: [read]}
  - {who: ["certificate:FD00:0:0:0:0:0:0:1", "certificate:10.0.0.1"], datasets: [near], rights: [read]}
limits:
  - {who: ["certificate:limited"], memory: 0.5}
`

func TestCertificates(t *testing.T) {
	g := mustOpen(t, certificatesFile)
	train := mustURL(t, "spiffe://corp/Train")
	for _, c := range []struct {
		name string
		cert x509.Certificate
		want string
		may  []string
	}{
		{"a DNS name", x509.Certificate{DNSNames: []string{"OPS.example"}}, "certificate:ops.example", []string{""}},
		{"one that no grant names", x509.Certificate{DNSNames: []string{"a.example", "b.example"}}, "certificate:a.example", nil},
		{"the second is granted", x509.Certificate{DNSNames: []string{"a.example", "ops.example"}}, "certificate:ops.example", []string{""}},
		{"only a limit", x509.Certificate{DNSNames: []string{"a", "limited"}}, "certificate:limited", nil},
		{"all names count", x509.Certificate{DNSNames: []string{"a", "ops.example"}, URIs: []*url.URL{train}}, "certificate:ops.example", []string{"", "photos"}},
		{"a URI", x509.Certificate{URIs: []*url.URL{train}}, "certificate:spiffe://corp/Train", []string{"photos"}},
		{"a URI in other letters", x509.Certificate{URIs: []*url.URL{mustURL(t, "spiffe://corp/train")}}, "certificate:spiffe://corp/train", nil},
		{"an address", x509.Certificate{EmailAddresses: []string{"Alice@corp.example"}}, "certificate:Alice@corp.example", []string{"text"}},
		{"IPv4", x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, "certificate:10.0.0.1", []string{"near"}},
		{"IPv6", x509.Certificate{IPAddresses: []net.IP{net.ParseIP("fd00::1")}}, "certificate:fd00::1", []string{"near"}},
		{"a DNS name like an address", x509.Certificate{DNSNames: []string{"Alice@corp.example", "x"}}, "certificate:x", nil},
		{"a DNS name like a URI", x509.Certificate{DNSNames: []string{"spiffe://corp/Train", "x"}}, "certificate:x", nil},
		{"a DNS name like IPv4", x509.Certificate{DNSNames: []string{"10.0.0.1", "x"}}, "certificate:x", nil},
		{"a URI like a DNS name", x509.Certificate{DNSNames: []string{"x"}, URIs: []*url.URL{mustURL(t, "ops.example")}}, "certificate:x", nil},
		{"an address like a DNS name", x509.Certificate{DNSNames: []string{"x"}, EmailAddresses: []string{"ops.example"}}, "certificate:x", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := certificate(t, x509.Certificate{DNSNames: []string{"ops.example"}}) // an intermediate authority
			p, err := g.Authenticate(Credentials{Certificates: []*x509.Certificate{certificate(t, c.cert), other}})
			if err != nil || p.Name != c.want || p.Anonymous() {
				t.Fatalf("got %q, %v, want %s", p.Name, err, c.want)
			}
			for _, dataset := range []string{"", "photos", "text", "near"} {
				right := Read
				if dataset == "" {
					right = Admin
				}
				if got := g.May(p, right, dataset); got != slices.Contains(c.may, dataset) {
					t.Errorf("%v on %q: got %t, want %t", right, dataset, got, !got)
				}
			}
		})
	}
	limited, err := g.Authenticate(Credentials{Certificates: []*x509.Certificate{certificate(t, x509.Certificate{DNSNames: []string{"limited"}})}})
	if err != nil || g.Limits(limited).Memory != 0.5 {
		t.Errorf("limits of a certificate: got %+v, %v, want those of the file", g.Limits(limited), err)
	}
}

func TestACertificateWithoutANameIsRefused(t *testing.T) {
	g := mustOpen(t, certificatesFile)
	cert := certificate(t, x509.Certificate{})
	cert.Subject.CommonName = "ops.example"
	cert.DNSNames = []string{"", strings.Repeat("a", 300), "a\x00b"}
	if p, err := g.Authenticate(Credentials{Certificates: []*x509.Certificate{cert}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %q, %v, want ErrInvalid: neither anonymous nor its common name", p.Name, err)
	}
}

// TestACertificateThatExpires: a certificate is refused after its expiry, even on a connection that
// was opened before it.
func TestACertificateThatExpires(t *testing.T) {
	clock := newClock()
	g, err := Open(Config{File: string(newFile(t, certificatesFile)), Now: clock.Now})
	must(t, err)
	cert := certificate(t, x509.Certificate{DNSNames: []string{"ops.example"}})
	cert.NotAfter = clock.Now()
	shown := Credentials{Certificates: []*x509.Certificate{cert}}
	p, err := g.Authenticate(shown)
	if err != nil || !g.May(p, Admin, "") {
		t.Errorf("in its last second: got %v, want its rights", err)
	}
	clock.add(time.Second)
	if _, err := g.Authenticate(shown); !errors.Is(err, ErrInvalid) || g.May(p, Admin, "") {
		t.Errorf("expired: got %v and its rights %t, want it refused", err, g.May(p, Admin, ""))
	}
}

func TestAuthorizationGoesBeforeACertificate(t *testing.T) {
	g := mustOpen(t, certificatesFile)
	shown := Credentials{Authorization: []string{"Bearer x"}, Certificates: []*x509.Certificate{certificate(t, x509.Certificate{DNSNames: []string{"ops.example"}})}}
	if p, err := g.Authenticate(shown); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bad token beside a certificate: got %q, %v, want ErrInvalid", p.Name, err)
	}
}
