package main

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestServe_ChecksTLSFilesAtStart: each error names its flag or file.
func TestServe_ChecksTLSFilesAtStart(t *testing.T) {
	ca, data := certtest.New(t), shards(t)
	good, other := ca.Issue(t, t.TempDir(), nil), ca.Issue(t, t.TempDir(), nil)
	old := ca.Issue(t, t.TempDir(), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for name, tc := range map[string]struct {
		cert, key, ca string
		want          string
	}{
		"as it should be":          {good.Cert, good.Key, "", ""},
		"with a client CA":         {good.Cert, good.Key, good.CA, ""},
		"no key":                   {good.Cert, "", "", "--tls-cert requires tls-key"},
		"no certificate":           {"", good.Key, "", "--tls-key requires tls-cert"},
		"a client CA alone":        {"", "", good.CA, "--client-ca requires tls-cert and tls-key"},
		"a missing file":           {good.Cert, good.Key + ".pem", "", "--tls-cert: TLS key: stat " + good.Key + ".pem"},
		"a pair that does not fit": {good.Cert, other.Key, "", "--tls-cert: TLS certificate " + good.Cert + " with key " + other.Key},
		"expired":                  {old.Cert, old.Key, "", "--tls-cert: TLS certificate " + old.Cert + ": it expired at 20"},
		"a client CA without one":  {good.Cert, good.Key, good.Key, "--tls-cert: client CA " + good.Key + ": the file contains no certificate"},
	} {
		o := millrace(t, nil, "serve", "--dataset", "files="+data, "--check", "--tls-cert", tc.cert, "--tls-key", tc.key, "--client-ca", tc.ca)
		switch {
		case tc.want == "" && (o.code != exitOK || !strings.Contains(o.stdout, "tls-cert: "+tc.cert+"\n")):
			t.Errorf("%s: got %d %s%s, want 0 and the file's name", name, o.code, o.stdout, o.stderr)
		case tc.want != "" && (o.code != exitUsage || !strings.Contains(o.stderr, tc.want)):
			t.Errorf("%s: got %d %s, want 2 and %q", name, o.code, o.stderr, tc.want)
		}
	}
}
