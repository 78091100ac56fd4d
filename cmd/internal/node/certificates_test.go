package node

import (
	"bytes"
	"context"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestCertificates_WarnBeforeExpiry: the log contains a warning if a certificate expires in an
// hour. Invalid new files set a metric and add a line to the log.
func TestCertificates_WarnBeforeExpiry(t *testing.T) {
	var log bytes.Buffer
	files := certtest.New(t).Issue(t, t.TempDir(), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Hour) })
	s, err := New(t.Context(), &Config{
		Locations: []location.Location{{Name: "files", Dir: dataset(t)}}, CacheSize: 64 << 20, Parallel: 1, PartSize: 1 << 20,
		TLSCert: files.Cert, TLSKey: files.Key, ClientCA: files.CA, Log: zerolog.New(&log),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stat := func(name string) float64 {
		for _, x := range s.stats() {
			if x.Name == name {
				return x.Value
			}
		}
		t.Fatalf("no metric %s", name)
		return 0
	}
	if got := stat("tls_certificate_seconds"); got <= time.Hour.Seconds()-60 || got > time.Hour.Seconds() {
		t.Errorf("expires: got in %v s, want in an hour", got)
	}
	if got := stat("tls_certificate_refused"); got != 0 {
		t.Errorf("good files: got %v, want 0", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.watchExpiry(ctx)
	if got := log.String(); strings.Count(got, "expires soon") != 1 || !strings.Contains(got, files.Cert) {
		t.Errorf("got %q, want one warning", got)
	}
	if err := os.WriteFile(files.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := stat("tls_certificate_refused"); got != 1 {
		t.Errorf("half a key: got %v, want 1", got)
	}
	if got := log.String(); strings.Count(got, "the old version stays") != 1 || !strings.Contains(got, files.Key) {
		t.Errorf("got %q, want one line that names the key", got)
	}
}
