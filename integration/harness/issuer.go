package harness

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/millrace-data/millrace/internal/certs"
)

// Issuer is an OpenID Connect provider over TLS. Its one caller has the id and the secret below.
type Issuer struct {
	URL string

	server   *httptest.Server
	provider *provider
}

// IssuerCaller is the subject of the tokens.
const IssuerCaller = "sid1"

const issuerSecret = "verysecret"

// provider is the storage of the library's example, with keys that change, and tokens for gateways.
type provider struct {
	*storage.Storage

	mu       sync.Mutex         // guards what follows
	keys     []*storage.Storage // each has a key of its own, and signs with it; the last one does now
	audience string
	groups   []string
}

// issuerClient is a client that gets JWTs.
type issuerClient struct{ op.Client }

func (issuerClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (p *provider) SigningKey(ctx context.Context) (op.SigningKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1].SigningKey(ctx)
}

func (p *provider) KeySet(ctx context.Context) ([]op.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []op.Key
	for _, k := range p.keys {
		public, err := k.KeySet(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, public...)
	}
	return all, nil
}

func (p *provider) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	c, err := p.Storage.ClientCredentials(ctx, id, secret)
	return issuerClient{c}, err
}

func (p *provider) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{p.audience}, Scopes: scopes}, nil
}

func (p *provider) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return map[string]any{"groups": p.groups}, nil
}

// NewIssuer starts a provider whose certificate a test's authority has signed.
func NewIssuer(t testing.TB, files certs.Config) *Issuer {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{server: httptest.NewUnstartedServer(nil)}
	i.URL = "https://" + i.server.Listener.Addr().String()
	i.provider = &provider{Storage: storage.NewStorage(storage.NewUserStore(i.URL)), audience: "millrace"}
	i.Rotate()
	made, err := op.NewProvider(&op.Config{CryptoKeyId: "crypto", CryptoKey: sha256.Sum256(nil)}, i.provider, op.StaticIssuer(i.URL),
		op.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	i.server.Config.Handler = made
	i.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	i.server.StartTLS()
	t.Cleanup(i.server.Close)
	return i
}

// Rotate signs from now on with a new key, and goes on publishing the old ones.
func (i *Issuer) Rotate() {
	i.provider.mu.Lock()
	defer i.provider.mu.Unlock()
	i.provider.keys = append(i.provider.keys, storage.NewStorage(storage.NewUserStore(i.URL)))
}

// Token asks the provider for a token for an audience that says the caller belongs to groups.
func (i *Issuer) Token(t testing.TB, audience string, groups ...string) string {
	t.Helper()
	i.provider.mu.Lock()
	i.provider.audience, i.provider.groups = audience, groups
	i.provider.mu.Unlock()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {IssuerCaller}, "client_secret": {issuerSecret}, "scope": {"openid"}}
	resp, err := i.server.Client().Post(i.URL+"/oauth/token", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || strings.Count(answer.Token, ".") != 2 {
		t.Fatalf("the provider answered %d %.500s, want a JWT (%v)", resp.StatusCode, body, err)
	}
	return answer.Token
}

// Stop ends the provider.
func (i *Issuer) Stop() { i.server.Close() }
