package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrName says that a gateway calls itself by a name that its certificate does not have.
var ErrName = errors.New("its certificate has another name: give each gateway a certificate of its own --member name, or --peer-shared-cert to all")

// namesOf returns whom a certificate is for: its DNS names, URIs and common name.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	if cert.Subject.CommonName != "" {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}

// certified returns an error unless the certificate at the other end of a connection is for a
// member. Without a certificate there is nothing to compare.
func certified(state *tls.ConnectionState, member string) error {
	if state == nil {
		return nil
	}
	names := namesOf(state.PeerCertificates[0])
	if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, member) }) {
		return nil
	}
	return fmt.Errorf("the gateway calls itself %.300q, and its certificate is for %.300q: %w", member, names, ErrName)
}

// Certify returns an error unless this gateway's own certificate is for a member.
func (f *Files) Certify(member string) error {
	own := f.current().cert.Leaf
	return certified(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}}, member)
}
