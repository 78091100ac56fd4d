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

// ErrName reports that a gateway's certificate does not have the gateway's name.
var ErrName = errors.New("its certificate is for another name: give each gateway a certificate with its --member name, or set MILLRACE_PEER_SHARED_CERT=true for all")

// certified returns an error unless the peer certificate of a connection is issued for a member.
// Without TLS it returns nil.
func certified(state *tls.ConnectionState, member string) error {
	if state == nil {
		return nil
	}
	names := certs.Names(state.PeerCertificates[0])
	if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, member) }) {
		return nil
	}
	return fmt.Errorf("the gateway has the member name %.300q, but its certificate is for %.300q: %w", member, names, ErrName)
}

// Certify returns an error unless a gateway's own certificate is issued for a member.
func Certify(own *x509.Certificate, member string) error {
	return certified(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}}, member)
}
