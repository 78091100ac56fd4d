package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// shown returns the serial number of the server's certificate on a new connection.
func shown(t *testing.T, url string, cfg *tls.Config) *big.Int {
	t.Helper()
	_, address, _ := strings.Cut(url, "//")
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber
}

// serialOf returns the serial number of the certificate in the files.
func serialOf(t *testing.T, files certs.Config) *big.Int {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber
}

// TestCertificatesAreReplacedUnderLoad reads epochs while the certificate's files are replaced,
// sometimes with invalid content. No request fails, each new connection gets the newest valid
// certificate, and kept-alive connections continue.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	store, ca, dir := packed(t, "dir"), certtest.New(t), t.TempDir()
	rounds, pause := 8, 20*time.Millisecond
	if long() {
		rounds, pause = 120, time.Second
	}
	files := ca.Issue(t, dir, nil)
	log := harness.Recorded(t)
	g := harness.ServeTLS(t, files, ca.Pool(), store, dataset, "--cache-size", "64MiB", "--lame-duck", "1ms")
	believes := &tls.Config{RootCAs: ca.Pool()}
	const size = 16
	n := batches(t, g, 0, size)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers sync.WaitGroup
	var fresh, kept atomic.Int64
	readers.Go(func() { // a new connection for each batch
		for m := 0; ctx.Err() == nil; m++ {
			r, err := g.Try(t.Context(), batchPath(0, m%n)+share(size, 0, 1))
			if err != nil || r.Status != http.StatusOK || log.Err() != nil {
				t.Errorf("batch %d: got status %d and %v, want 200", m%n, r.Status, err)
				return
			}
			fresh.Add(1)
		}
	})
	readers.Go(func() { // whole epochs, with a client that reuses its connections
		c, err := client.New(client.Config{
			Gateways: []string{g.URL}, Dataset: dataset, HTTP: &http.Client{Transport: log.Through("client", &http.Transport{TLSClientConfig: believes.Clone()})},
		})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseIdle()
		for epoch := uint64(0); ctx.Err() == nil; epoch++ {
			for b, err := range c.Batches(t.Context(), client.Options{Epoch: epoch, BatchSize: size}) {
				if err != nil {
					t.Errorf("epoch %d: %v", epoch, err)
					return
				}
				kept.Add(int64(len(b.Bytes())))
			}
		}
	})
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, serial *big.Int, refused float64) {
		t.Helper()
		for _, url := range []string{g.URL, g.Admin} {
			if got := shown(t, url, believes); got.Cmp(serial) != 0 {
				t.Errorf("%s: %s shows certificate %v, want %v", step, url, got, serial)
			}
		}
		if got := g.Metric(t, "millrace_tls_certificate_refused", ""); got != refused {
			t.Errorf("%s: got metric %v, want %v", step, got, refused)
		}
	}
	for i := range rounds {
		before := serialOf(t, files)
		cert, err := os.ReadFile(files.Cert)
		if err != nil {
			t.Fatal(err)
		}
		ca.Issue(t, dir, nil)
		serial := serialOf(t, files)
		if serial.Cmp(before) == 0 {
			t.Fatal("the files hold the old certificate")
		}
		check("a new pair", serial, 0)
		good, err := os.ReadFile(files.Cert)
		if err != nil {
			t.Fatal(err)
		}
		put(files.Cert, good[:len(good)/2])
		check("half a certificate", serial, 1)
		put(files.Cert, cert)
		check("the old certificate with the new key", serial, 1)
		ca.Issue(t, dir, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		check("expired", serial, 1)
		for _, words := range []string{"the old version stays in use", "certificate files reloaded", "private key does not match public key", "it expired at 20"} {
			if i == 0 && !strings.Contains(g.Log(), words) { // later rounds' lines are dropped in favor of those of requests
				t.Errorf("the log does not hold %q", words)
			}
		}
		time.Sleep(pause)
	}
	cancel()
	readers.Wait()
	if fresh.Load() < int64(rounds) || kept.Load() == 0 {
		t.Errorf("got %d batches over new connections and %d bytes over kept ones, want some", fresh.Load(), kept.Load())
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

// TestClientsOverTLS checks that the port accepts valid clients, and refuses certificates of other
// authorities, old protocols and plain HTTP.
func TestClientsOverTLS(t *testing.T) {
	store, ca, clients, others := packed(t, "dir"), certtest.New(t), certtest.New(t), certtest.New(t)
	g := harness.ServeTLS(t, ca.Issue(t, t.TempDir(), nil), ca.Pool(), store, dataset, "--client-ca", clients.File, "--cache-size", "64MiB")
	with := func(a *certtest.Authority, change func(*x509.Certificate)) *tls.Config {
		own := a.Issue(t, t.TempDir(), change)
		pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
		if err != nil {
			t.Fatal(err)
		}
		// GetClientCertificate sends the certificate even if the server does not list its
		// CA.
		return &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	}
	old := &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	for _, c := range []struct {
		name   string
		client *tls.Config
		want   string // in the error; "": the request succeeds
	}{
		{"no certificate", &tls.Config{RootCAs: ca.Pool()}, ""},
		{"no certificate, TLS 1.2", &tls.Config{RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS12}, ""},
		{"one of the client CA", with(clients, nil), ""},
		{"one of another CA", with(others, nil), "unknown certificate authority"},
		{"one that has expired", with(clients, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired certificate"},
		{"a server's", with(clients, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "bad certificate"},
		{"TLS 1.1", old, "protocol version not supported"},
		{"another server", &tls.Config{RootCAs: others.Pool()}, "unknown authority"},
	} {
		asker := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.client, ForceAttemptHTTP2: true}}
		for _, url := range []string{g.URL + batchPath(0, 0), g.Admin + "/metrics"} {
			status, protocol := 0, ""
			resp, err := asker.Get(url)
			if err == nil {
				resp.Body.Close()
				status, protocol = resp.StatusCode, resp.Proto
			}
			if c.want == "" && (status != http.StatusOK || protocol != "HTTP/1.1") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, %s: got status %d, %s and %v, want %q", c.name, url, status, protocol, err, c.want)
			}
		}
	}
	for _, url := range []string{g.URL, g.Admin} {
		r, err := harness.Do(t.Context(), http.MethodGet, strings.Replace(url, "https:", "http:", 1)+"/healthz")
		if err != nil || r.Status != http.StatusBadRequest || !strings.Contains(string(r.Body), "HTTPS") {
			t.Errorf("plain HTTP: got status %d, %q and %v, want 400 and a word of HTTPS", r.Status, r.Body, err)
		}
	}
}

// TestExpiredCertificatesAreRefusedAtStart checks that the gateway does not start, and names the
// file at fault.
func TestExpiredCertificatesAreRefusedAtStart(t *testing.T) {
	store := packed(t, "dir")
	old := certtest.New(t).Issue(t, t.TempDir(), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	r := harness.Run(t, store, "serve", "--dataset", store.Dataset(dataset), "--listen", "127.0.0.1:0", "--tls-cert", old.Cert, "--tls-key", old.Key)
	if r.Code != 2 || !strings.Contains(r.Stderr, "--tls-cert: TLS certificate "+old.Cert+": it expired at 20") {
		t.Errorf("got exit code %d, %s, want 2 and the file's name", r.Code, r.Stderr)
	}
}
