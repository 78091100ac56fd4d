package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Peer is the certificate by which gateways authenticate each other.
type Peer struct {
	*Files
	allow []string
}

// NewPeer reads and checks the files. They must exist, key and certificate must match, the
// certificate must be valid now, and the CA must have signed it for both ends of a connection.
// allow contains patterns (CheckPattern) for DNS names, URIs and common names. Another gateway's
// certificate must match one of them. Without patterns every certificate of the CA is that of a
// member, so the CA must sign no other certificates.
func NewPeer(cfg Config, allow []string) (*Peer, error) {
	all := []*file{{what: "peer certificate", name: cfg.Cert}, {what: "peer key", name: cfg.Key}, {what: "peer CA", name: cfg.CA}}
	files, err := newFiles(all, cfg, func(texts [][]byte, now time.Time) (*identity, error) {
		return peerIdentity(cfg, texts, now)
	})
	if err != nil {
		return nil, err
	}
	return &Peer{files, allow}, nil
}

func peerIdentity(cfg Config, texts [][]byte, now time.Time) (*identity, error) {
	cert, err := pair("peer", cfg, texts[0], texts[1], now)
	if err != nil {
		return nil, err
	}
	id := &identity{cert: cert}
	if err := id.believe(texts[2]); err != nil {
		return nil, fmt.Errorf("peer CA %s: %w", cfg.CA, err)
	}
	for _, use := range []struct {
		usage x509.ExtKeyUsage
		whose string
	}{{x509.ExtKeyUsageServerAuth, "server's"}, {x509.ExtKeyUsageClientAuth, "client's"}} {
		if err := verify(id.ca, cert.Leaf, between(cert), use.usage, now); err != nil {
			return nil, fmt.Errorf("verify peer certificate %s with CA %s, as a %s: %w", cfg.Cert, cfg.CA, use.whose, err)
		}
	}
	return id, nil
}

// BelievesClientsOf reports whether the certificate of a port's client may be accepted as a
// gateway's. That is so if both have the same authorities, or if the gateways' authorities have
// signed one of the clients' authorities.
func (p *Peer) BelievesClientsOf(port *Files) bool {
	ours := p.current().ca
	return slices.ContainsFunc(port.current().authorities, func(authority *x509.Certificate) bool {
		return verify(ours, authority, nil, x509.ExtKeyUsageAny, time.Now()) == nil
	})
}

// Leaf returns this gateway's own certificate.
func (p *Peer) Leaf() *x509.Certificate { return p.current().cert.Leaf }

// Server returns the TLS settings of a server: TLS 1.3, with a required client certificate.
func (p *Peer) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			id := p.current()
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				Certificates:           []tls.Certificate{id.cert},
				ClientAuth:             tls.RequireAndVerifyClientCert,
				ClientCAs:              id.ca,
				NextProtos:             []string{"http/1.1"},
				SessionTicketsDisabled: true, // connections are kept open, so tickets are not needed; a ticket would outlive a change of the files
				VerifyConnection:       func(state tls.ConnectionState) error { return p.allowed(state.PeerCertificates[0]) },
			}, nil
		},
	}
}

// Client returns the TLS settings of a client: TLS 1.3, this gateway's certificate, and a server
// whose certificate the CA has signed and allow accepts. The address is not compared, because
// gateways are dialed by address and identified by name.
func (p *Peer) Client() *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &p.current().cert, nil },
		InsecureSkipVerify:   true, // VerifyConnection verifies everything except the address
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the peer presents no certificate")
			}
			leaf, middle := state.PeerCertificates[0], x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				middle.AddCert(c)
			}
			if err := verify(p.current().ca, leaf, middle, x509.ExtKeyUsageServerAuth, time.Now()); err != nil {
				return fmt.Errorf("the peer's certificate: %w", err)
			}
			return p.allowed(leaf)
		},
	}
}

// allowed returns an error unless a verified certificate has a name that is allowed.
func (p *Peer) allowed(cert *x509.Certificate) error {
	if len(p.allow) == 0 {
		return nil
	}
	names := Names(cert)
	for _, name := range names {
		if slices.ContainsFunc(p.allow, func(pattern string) bool { return matches(pattern, name) }) {
			return nil
		}
	}
	return fmt.Errorf("the peer's certificate is for %.300q, but --peer-allow allows none of these names", names)
}
