package harness

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// Certify issues a certificate for the name and address of a gateway.
func Certify(t testing.TB, a *certtest.Authority, name, address string) certs.Config {
	t.Helper()
	return a.Issue(t, t.TempDir(), func(c *x509.Certificate) {
		c.Subject, c.DNSNames, c.IPAddresses = pkix.Name{CommonName: name}, []string{name}, []net.IP{net.ParseIP(address)}
	})
}
