package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// https is the prefix of the address of a process that uses TLS.
const https = "https://"

// scheme returns the prefix of the address of a process with these flags.
func scheme(flags []string) string {
	if slices.ContainsFunc(flags, func(f string) bool { return strings.HasSuffix(f, "-tls-cert") }) {
		return https
	}
	return ""
}

// mutual returns the TLS configuration for both ends of a bare hop between yardsticks: TLS 1.3 and
// a common certificate.
func mutual(cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AddCert(pair.Leaf)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ServerName: "localhost",
		RootCAs: known, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// anyServer returns a configuration that accepts every certificate, because the benchmark only
// measures the cost of TLS.
func anyServer() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// certificate writes a certificate and its key. The certificate has the names of all processes
// here, serves both ends of a connection, and is its own authority. Connections are reused, so the
// certificate does not affect the measured rates.
func certificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost", holder, front},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	)
}

// warmTLS measures a gateway with TLS and all data in memory, against bare handlers with TLS.
func (s *suite) warmTLS(ctx context.Context) error {
	cert, key, err := certificate(s.dir)
	if err != nil {
		return err
	}
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.warmSetTLS(ctx, d, cert, key); err != nil {
			return fmt.Errorf("warm over TLS, %s: %w", d.name, err)
		}
	}
	return nil
}

func (s *suite) warmSetTLS(ctx context.Context, d set, cert, key string) error {
	s.logf("warm over TLS, %s: %d rounds of 3 arms", d.name, s.rounds)
	gw, err := s.world.serve(ctx, s.room(), []string{"--tls-cert", cert, "--tls-key", key})
	if err != nil {
		return err
	}
	defer gw.stop()
	bare, err := startYardstick(ctx, d.body(), s.mib<<20, "-tls-cert", cert, "-tls-key", key)
	if err != nil {
		return err
	}
	defer bare.stop()
	if _, err := read(ctx, gw.addr, conns, 0, d.once(0)); err != nil {
		return err
	}
	if _, err := d.genuine(ctx, s.world.store, gw.addr, d.path(0, 0)); err != nil {
		return err
	}
	var ours, hot, cold, cpuOurs, cpuHot []float64
	for round := range s.rounds {
		h, err := s.measure(ctx, bare, func(int64) string { return "/hot" })
		if err != nil {
			return err
		}
		o, err := s.measure(ctx, gw, d.epoch(int64(round*1000)))
		if err != nil {
			return err
		}
		c, err := s.measure(ctx, bare, func(int64) string { return "/cold" })
		if err != nil {
			return err
		}
		ours, hot, cold = append(ours, o.rate()), append(hot, h.rate()), append(cold, c.rate())
		cpuOurs, cpuHot = append(cpuOurs, o.cpu), append(cpuHot, h.cpu)
	}
	s.table.paired(17, "warm over TLS, "+d.name, "HOT over TLS", ours, hot, gigabytes())
	s.table.paired(17, "warm over TLS, "+d.name, "COLD-MEM over TLS", ours, cold, gigabytes())
	if cpuHot[0] > 0 {
		s.table.paired(17, "processor time per byte, warm over TLS, "+d.name, "HOT over TLS", cpuOurs, cpuHot, nanoPerKB())
	}
	return nil
}
