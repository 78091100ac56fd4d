package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Port is the certificate of a port that all clients may use, and the authorities of its clients.
type Port struct{ *Files }

// NewPort reads and checks the files. They must exist, key and certificate must match, and the
// certificate must be valid now and usable by a server. Without a CA, the port asks no client for a
// certificate.
func NewPort(cfg Config) (*Port, error) {
	all := []*file{{what: "TLS certificate", name: cfg.Cert}, {what: "TLS key", name: cfg.Key}}
	if cfg.CA != "" {
		all = append(all, &file{what: "client CA", name: cfg.CA})
	}
	files, err := newFiles(all, cfg, func(texts [][]byte, now time.Time) (*identity, error) {
		return portIdentity(cfg, texts, now)
	})
	if err != nil {
		return nil, err
	}
	return &Port{files}, nil
}

func portIdentity(cfg Config, texts [][]byte, now time.Time) (*identity, error) {
	cert, err := pair("TLS", cfg, texts[0], texts[1], now)
	if err != nil {
		return nil, err
	}
	uses := cert.Leaf.ExtKeyUsage
	if len(uses) > 0 && !slices.Contains(uses, x509.ExtKeyUsageServerAuth) && !slices.Contains(uses, x509.ExtKeyUsageAny) {
		return nil, fmt.Errorf("TLS certificate %s: its extended key usage does not allow a server", cfg.Cert)
	}
	id := &identity{cert: cert}
	if cfg.CA != "" {
		if err := id.believe(texts[2]); err != nil {
			return nil, fmt.Errorf("client CA %s: %w", cfg.CA, err)
		}
	}
	return id, nil
}

// Server returns the TLS settings of a server: TLS 1.2 and 1.3 with Go's cipher suites, and
// HTTP/1.1. With a client CA, a client may present a certificate. A certificate that the CA has not
// signed for a client ends the connection.
func (p *Port) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			id := p.current()
			c := &tls.Config{
				MinVersion:             tls.VersionTLS12,
				Certificates:           []tls.Certificate{id.cert},
				NextProtos:             []string{"http/1.1"},
				SessionTicketsDisabled: true, // a resumed session would keep a client certificate that another CA had verified
			}
			if id.ca != nil {
				c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, id.ca
			}
			return c, nil
		},
	}
}
