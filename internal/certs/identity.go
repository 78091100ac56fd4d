package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// identity is the parsed content of the files.
type identity struct {
	cert tls.Certificate
	ca   *x509.CertPool // nil: no other certificates are accepted

	authorities []*x509.Certificate // the certificates in ca
}

// pair checks that certificate and key match, and that the certificate is valid now.
func pair(role string, cfg Config, cert, key []byte, now time.Time) (tls.Certificate, error) {
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return c, fmt.Errorf("%s certificate %s with key %s: %w", role, cfg.Cert, cfg.Key, err)
	}
	switch leaf := c.Leaf; {
	case now.After(leaf.NotAfter):
		err = fmt.Errorf("%s certificate %s: it expired at %s", role, cfg.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		err = fmt.Errorf("%s certificate %s: it is valid only from %s", role, cfg.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return c, err
}

// believe parses the accepted authorities from PEM, and adds them to an identity.
func (id *identity) believe(text []byte) error {
	id.ca = x509.NewCertPool()
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		id.ca.AddCert(cert)
		id.authorities = append(id.authorities, cert)
	}
	if len(id.authorities) == 0 {
		return errors.New("the file contains no certificate")
	}
	return nil
}

// between returns the intermediate certificates of a chain.
func between(cert tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(c)
		}
	}
	return pool
}

func verify(ca *x509.CertPool, leaf *x509.Certificate, middle *x509.CertPool, use x509.ExtKeyUsage, now time.Time) error {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: ca, Intermediates: middle, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

// Names returns the names of a certificate: its DNS names, URIs and common name.
func Names(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	if cert.Subject.CommonName != "" {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}
