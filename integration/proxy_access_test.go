package integration_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// openAccess writes an access file. All clients may read the photos and the metrics; only the
// holder of the token may read the closed dataset too.
func openAccess(t *testing.T) (path, token string) {
	t.Helper()
	out := harness.MustRun(t, harness.Open(t, "dir"), "token", "trainer", "--json")
	var made struct{ Token, Sha256 string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "access.yaml")
	text := fmt.Sprintf(`tokens:
  - {name: trainer, sha256: %s}
grants:
  - {who: [anonymous], datasets: [photos], rights: [read, admin]}
  - {who: ["token:trainer"], datasets: [closed], rights: [read]}
`, made.Sha256)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, made.Token
}

// from returns a client that connects from a given address of this machine and trusts the given
// authority.
func from(address string, believed *tls.Config) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: believed, DisableKeepAlives: true}}
}

// TestProxiesPassOnWhoAsks sends tokens through each proxy, in plain HTTP and over TLS on both
// sides. A token grants its rights, no proxy serves its responses to other clients, and the audit
// log has the client's own address, whatever address the client claims.
func TestProxiesPassOnWhoAsks(t *testing.T) {
	files, _ := harness.Files(t, 50, 20_000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	ca := certtest.New(t)
	for _, f := range fronts() {
		t.Run(f.name, func(t *testing.T) {
			access, token := openAccess(t)
			audit := filepath.Join(t.TempDir(), "audit.log")
			g := harness.Serve(t, store, dataset, "--dataset", "closed="+store.Dataset(dataset), "--cache-size", "64MiB",
				"--access", access, "--trusted-proxies", "127.0.0.1", "--audit-log", audit, "--lame-duck", "1ms")
			proxy, _ := startFront(t, f, asItIs, strings.TrimPrefix(g.URL, "http://"))
			checkAccess(t, g, proxy.URL, token, from("127.0.0.2", nil))
			checkAudit(t, g, audit, "127.0.0.2")
		})
		if f.name == "varnish" {
			continue // it speaks no TLS
		}
		t.Run(f.name+" with TLS", func(t *testing.T) {
			access, token := openAccess(t)
			audit := filepath.Join(t.TempDir(), "audit.log")
			dir, listen := t.TempDir(), harness.FreeAddress(t)
			pair := harness.Certify(t, ca, "gateway.example", "127.0.0.1")
			g := harness.ServeTLS(t, pair, ca.Pool(), store, dataset, "--dataset", "closed="+store.Dataset(dataset), "--cache-size", "64MiB",
				"--access", access, "--trusted-proxies", "127.0.0.1", "--audit-log", audit, "--lame-duck", "1ms")
			both := append(readFile(t, pair.Cert), readFile(t, pair.Key)...)
			for name, data := range map[string][]byte{
				"ca.crt": readFile(t, pair.CA), "tls.crt": readFile(t, pair.Cert), "tls.key": readFile(t, pair.Key), "tls.pem": both,
				"stranger.crt": readFile(t, harness.Certify(t, certtest.New(t), "gateway.example", "127.0.0.1").CA),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			withTLS := func(config string) string {
				for _, name := range []string{"ca.crt", "tls.crt", "tls.key", "tls.pem"} {
					config = strings.ReplaceAll(config, " "+name, " "+filepath.Join(dir, name))
				}
				return strings.NewReplacer(append(placesOf("127.0.0.1:8443", listen), "#tls ", "", "http://$gateway", "https://$gateway")...).Replace(config)
			}
			address := strings.TrimPrefix(g.URL, "https://")
			startFront(t, f, withTLS, address)
			misled, _ := launchFront(t, f, func(config string) string {
				config = strings.ReplaceAll(withTLS(config), filepath.Join(dir, "ca.crt"), filepath.Join(dir, "stranger.crt"))
				return strings.NewReplacer(placesOf(listen, harness.FreeAddress(t))...).Replace(config)
			}, address)
			var refused harness.Response
			misled.Ready(t, func(ctx context.Context) (err error) {
				refused, err = misled.Try(ctx, "/healthz")
				return err
			})
			if refused.Status < 500 {
				t.Errorf("a proxy that believes another authority: got %d, want no answer of this gateway", refused.Status)
			}
			plain, err := harness.Do(t.Context(), http.MethodGet, strings.Replace(g.URL, "https", "http", 1)+"/healthz")
			if err != nil || plain.Status != http.StatusBadRequest {
				t.Errorf("plain HTTP on the port of TLS: got %d and %v, want 400", plain.Status, err)
			}
			checkAccess(t, g, "https://"+listen, token, from("127.0.0.2", &tls.Config{RootCAs: ca.Pool()}))
			checkAudit(t, g, audit, "127.0.0.2")
		})
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkAccess reads a closed dataset through a proxy, with and without the token. It uses pinned
// URLs, whose responses caches might store.
func checkAccess(t *testing.T, g *harness.Gateway, proxy, token string, asker *http.Client) {
	t.Helper()
	want := g.MustGet(t, "/v1/datasets/closed/epochs/0/batches/0?batch_size=16", "Authorization", "Bearer "+token)
	pinned := want.Header.Get("Content-Location")
	ask := func(authorization string) harness.Response {
		t.Helper()
		// Headers in which a client might claim another address.
		header := []string{"X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9", "Accept-Encoding", "gzip"}
		if authorization != "" {
			header = append(header, "Authorization", authorization)
		}
		r, err := harness.DoWith(t.Context(), asker, http.MethodGet, proxy+pinned, header...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	refuse := func(when, authorization, challenge string) {
		t.Helper()
		got := ask(authorization)
		if got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != challenge || problemOf(t, got).Code != "unauthenticated" {
			t.Errorf("%s: got %d, WWW-Authenticate %q and %.200s; want 401, %q and its problem", when, got.Status, got.Header.Get("WWW-Authenticate"), got.Body, challenge)
		}
	}
	const realm = `Bearer realm="millrace"`
	refuse("no token", "", realm)
	for range 2 {
		before := askedFor(t, g)
		got := ask("Bearer " + token)
		if got.Status != http.StatusOK || !bytes.Equal(got.Body, want.Body) || got.Header.Get("Cache-Control") != "private, max-age=31536000, immutable" {
			t.Errorf("with the token: got %d, %d bytes and Cache-Control %q; want the batch, private", got.Status, len(got.Body), got.Header.Get("Cache-Control"))
		}
		if after := askedFor(t, g); after != before+1 {
			t.Errorf("with the token: got %v requests at the gateway, want 1", after-before)
		}
		refuse("no token, after the token's holder", "", realm)
		refuse("a wrong token, after the token's holder", "Bearer mr_"+strings.Repeat("A", 43), realm+`, error="invalid_token"`)
	}
}

// checkAudit waits for the line about a refusal, and requires the client's own address in all
// lines.
func checkAudit(t *testing.T, g *harness.Gateway, path, address string) {
	t.Helper()
	if err := g.Stop(); err != nil { // one line sums up the refusals of a minute
		t.Error(err)
	}
	lines := 0
	for line := range strings.Lines(string(readFile(t, path))) {
		var entry struct{ Address string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Address != address {
			t.Errorf("audit log: got %s and %v, want the address %s", line, err, address)
		}
		lines++
	}
	if lines == 0 {
		t.Error("audit log: got no line, want those of the refusals")
	}
}
