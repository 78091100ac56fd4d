package integration_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// identities is the store of an OpenID provider. It issues JWTs with groups, and its key can be
// replaced.
type identities struct {
	*storage.Storage
	keys atomic.Pointer[storage.Storage] // used only for its key
}

func (s *identities) rotate() {
	s.keys.Store(storage.NewStorage(storage.NewUserStore("https://localhost")))
}

func (s *identities) SigningKey(ctx context.Context) (op.SigningKey, error) {
	return s.keys.Load().SigningKey(ctx)
}

func (s *identities) KeySet(ctx context.Context) ([]op.Key, error) { return s.keys.Load().KeySet(ctx) }

func (s *identities) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return map[string]any{"groups": []string{"staff", "research"}}, nil
}

func (s *identities) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	c, err := s.Storage.ClientCredentials(ctx, id, secret)
	return jwtClient{c}, err
}

// jwtClient is a client of the provider that receives JWTs.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

// openIDProvider is a provider whose address is known before it starts.
type openIDProvider struct {
	*identities
	issuer string
	server *http.Server
	asker  *http.Client
	start  func()
}

func newOpenIDProvider(t *testing.T, ca *certtest.Authority) *openIDProvider {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // the port is closed until start
	p := &openIDProvider{identities: &identities{}, issuer: "https://" + address}
	p.Storage = storage.NewStorage(storage.NewUserStore("https://localhost"))
	p.rotate()
	handler, err := op.NewProvider(&op.Config{}, p.identities, op.StaticIssuer(p.issuer))
	if err != nil {
		t.Fatal(err)
	}
	p.server = &http.Server{Handler: handler}
	t.Cleanup(func() { p.server.Close() })
	files := ca.Issue(t, t.TempDir(), nil)
	p.asker = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}}
	p.start = func() {
		if listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		go func() { _ = p.server.ServeTLS(listener, files.Cert, files.Key) }()
	}
	return p
}

// token requests a JWT from the provider with client credentials.
func (p *openIDProvider) token(t *testing.T) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.issuer+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("sid1", "verysecret")
	resp, err := p.asker.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || strings.Count(answer.Token, ".") != 2 {
		t.Fatalf("ask for a token: got %s, %v, want a JWT", resp.Status, err)
	}
	return answer.Token
}

// TestJWTsOfAnOpenIDProvider authenticates callers through a real provider, which is down when the
// gateway starts, then starts and replaces its key.
func TestJWTsOfAnOpenIDProvider(t *testing.T) {
	store, ca := packed(t, "dir"), certtest.New(t)
	p := newOpenIDProvider(t, ca)
	file := filepath.Join(t.TempDir(), "access.yaml")
	access := fmt.Sprintf(`
issuers: [{name: corp, issuer: "%s", audience: sid1, groups: groups}]
grants:
  - {who: ["group:corp#research"], datasets: [%s], rights: [read]}
  - {who: ["jwt:corp#sid1"], rights: [admin]}
  - {who: [anonymous], rights: [admin]}
`, p.issuer, dataset)
	if err := os.WriteFile(file, []byte(access), 0o600); err != nil {
		t.Fatal(err)
	}
	g := harness.ServeUnder(t, `SSL_CERT_FILE='`+ca.File+`' exec "$0" "$@"`, store, dataset, "--access", file)
	const batch = "/epoch/0/batch/0"
	status := func(jwt string) int { return g.Get(t, batch, "Authorization", "Bearer "+jwt).Status }
	if got := g.Metric(t, "millrace_access_issuers_without_keys", ""); got != 1 {
		t.Errorf("issuers without keys while the provider is down: got %v, want 1", got)
	}
	p.start()
	first := p.token(t)
	if got := g.Get(t, batch).Status; got != http.StatusUnauthorized {
		t.Errorf("without a JWT: got status %d, want 401", got)
	}
	until(t, 30*time.Second, "a JWT is good once the provider is up", func() bool { return status(first) == http.StatusOK })
	if got := g.Metric(t, "millrace_access_issuers_without_keys", ""); got != 0 {
		t.Errorf("issuers without keys: got %v, want 0", got)
	}
	if got := status(first[:len(first)-6] + "AAAAAA"); got != http.StatusUnauthorized {
		t.Errorf("with another signature: got status %d, want 401", got)
	}
	if !long() {
		t.Log("only with long counts: another key of the issuer")
		return
	}
	p.rotate()
	second := p.token(t)
	if got := status(second); got != http.StatusUnauthorized {
		t.Errorf("signed by a key that is not known yet: got status %d, want 401", got)
	}
	until(t, 2*time.Minute, "a JWT of the new key is good a minute later", func() bool { return status(second) == http.StatusOK })
	if got := status(first); got != http.StatusUnauthorized {
		t.Errorf("signed by the key before: got status %d, want 401", got)
	}
}

// until waits for a condition.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !ok(); {
		select {
		case <-end:
			t.Fatalf("%s: got it not within %v", what, limit)
		case <-tick.C:
		}
	}
}
