package peer

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestNamesAreThoseOfCertificates: the certificate determines which member a gateway is. Questions,
// hellos and answers under another name are refused.
func TestNamesAreThoseOfCertificates(t *testing.T) {
	ours := certtest.New(t)
	named := func(name string) *certs.Peer {
		return files(t, issue(t, ours, func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, name }))
	}
	s := newShelf(1, 100)
	serve := func(self, cert string) string {
		cfg := serverOf(s)
		cfg.SharedCert, cfg.TLS = false, named(cert).Server()
		cfg.Met = greets(Hello{Cluster: testCluster, ID: self, Boot: "1"})
		return start(t, cfg)
	}
	ask := func(member, cert string) *Client {
		return asker(t, func(cfg *ClientConfig) {
			cfg.ID, cfg.SharedCert, cfg.TLS = member, false, named(cert).Client()
		})
	}
	gw0, impostor := serve("gw-0", "gw-0"), serve("gw-0", "gw-2")
	q, dst, want := s.question(1, 50)
	hello := func(id string) Hello { return Hello{Cluster: testCluster, ID: id, Boot: "1"} }
	member := ask("gw-1", "gw-1")
	if err := ask("GW-1", "gw-1").Read(t.Context(), gw0, q, dst); err != nil {
		t.Errorf("a member's question: %v", err)
	} else {
		same(t, dst, want)
	}
	if _, err := member.Hello(t.Context(), gw0, hello("gw-1")); err != nil {
		t.Errorf("a member's hello: %v", err)
	}
	thief := ask("gw-77", "gw-1")
	_, greeted := thief.Hello(t.Context(), gw0, hello("gw-77"))
	_, greetedAsOther := member.Hello(t.Context(), gw0, hello("gw-77"))
	for what, err := range map[string]error{
		"a question under another name": thief.Read(t.Context(), gw0, q, dst),
		"a hello under another name":    greeted,
		"a hello for another one":       greetedAsOther,
	} {
		var no *RefusalError
		if !errors.As(err, &no) || no.Code != CodeRefused || !strings.Contains(no.Detail, `"gw-77"`) || !strings.Contains(no.Detail, `"gw-1"`) {
			t.Errorf("%s: got %v, want it refused with both names", what, err)
		}
	}
	if _, err := member.Hello(t.Context(), impostor, hello("gw-1")); !errors.Is(err, ErrName) || !strings.Contains(err.Error(), `["gw-2"]`) {
		t.Errorf("an answer under another name: got %v, want %v and the names", err, ErrName)
	}
}
