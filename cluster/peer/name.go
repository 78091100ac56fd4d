package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/certs"
)

// ErrName says that a gateway calls itself by a name that its certificate does not have.
var ErrName = errors.New("its certificate has another name: give each gateway a certificate of its own --member name, or --peer-shared-cert to all")

// certified returns an error unless the certificate at the other end of a connection is for a
// member. Without a certificate there is nothing to compare.
func certified(state *tls.ConnectionState, member string) error {
	if state == nil {
		return nil
	}
	names := certs.Names(state.PeerCertificates[0])
	if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, member) }) {
		return nil
	}
	return fmt.Errorf("the gateway calls itself %.300q, and its certificate is for %.300q: %w", member, names, ErrName)
}

// Certify returns an error unless a gateway's own certificate is for a member.
func Certify(own *x509.Certificate, member string) error {
	return certified(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}}, member)
}
