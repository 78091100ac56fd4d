package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// provider is an issuer that a test runs: a TLS server with an OpenID configuration and keys.
type provider struct {
	*httptest.Server
	guard *Guard
	file  accessFile
	clock *clock

	mu     sync.Mutex
	issuer string                                 // issuer in its OpenID configuration
	keys   []any                                  // published keys
	answer func(http.ResponseWriter, string) bool // called first; it returns true if it has sent a response
	asked  map[string]int
	told   []error // by Config.Keys
}

func newProvider(t testing.TB, keys ...any) *provider {
	t.Helper()
	leaks.Check(t) // before the provider's server starts
	p := &provider{keys: keys, asked: map[string]int{}, clock: newClock()}
	p.Server = httptest.NewTLSServer(p)
	p.issuer = p.URL
	transport := p.Client().Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	t.Cleanup(p.Close)
	p.file = newFile(t, p.access("audience: millrace, groups: groups"))
	var err error
	p.guard, err = Open(Config{File: string(p.file), HTTP: transport, Now: p.clock.Now, Keys: func(name string, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if name != "corp" {
			t.Errorf("Keys of issuer %q, want corp", name)
		}
		p.told = append(p.told, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// access returns the text of an access file that trusts the provider.
func (p *provider) access(fields string) string {
	return `
issuers: [{name: corp, issuer: "` + p.URL + `", ` + fields + `}]
grants: [{who: ["jwt:corp#alice"], datasets: [photos], rights: [read]}, {who: ["group:corp#ml"], datasets: [text], rights: [read]}]
`
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	answer, issuer, keys := p.answer, p.issuer, p.keys
	p.mu.Unlock()
	if answer != nil && answer(w, r.URL.Path) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "jwks_uri": p.URL + "/keys"})
	case "/keys":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	default:
		http.NotFound(w, r)
	}
}

// set changes the provider between two fetches.
func (p *provider) set(change func(*provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked["/keys"]
}

// fetch makes the guard start the fetches that are due, and returns the arguments of Config.Keys.
func (p *provider) fetch(t testing.TB) []error {
	t.Helper()
	p.guard.FetchKeys(t.Context())
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

// signer is a private key with the kid of the published public key.
type signer struct {
	kid string
	key crypto.Signer
}

func newRSA(t testing.TB, kid string, bits int) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	return signer{kid, key}
}

func newEC(t testing.TB, kid string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return signer{kid, key}
}

func newEd(t testing.TB, kid string) signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	return signer{kid, key}
}

func (s signer) public() jose.JSONWebKey { return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid} }

func (s signer) algorithm() string {
	switch s.key.(type) {
	case *rsa.PrivateKey:
		return "RS256"
	case *ecdsa.PrivateKey:
		return "ES256"
	}
	return "EdDSA"
}

// members are the members of a JSON object. In changes, a nil value removes a member.
type members map[string]any

func (m members) with(changes members) members {
	all := maps.Clone(m)
	for k, v := range changes {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	return all
}

// claims returns the claims of a JWT that is valid at the provider's time.
func (p *provider) claims(changes members) members {
	now := p.clock.Now()
	return members{
		"iss": p.URL, "aud": "millrace", "sub": "alice", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}.with(changes)
}

// sign returns a JWT with valid claims, except for the changes.
func (p *provider) sign(t testing.TB, s signer, header, changes members) string {
	t.Helper()
	return s.sign(t, members{"alg": s.algorithm(), "kid": s.kid, "typ": "JWT"}.with(header), p.claims(changes))
}

// sign signs any header and claims with the key's own algorithm. Each is a JSON object or its text.
func (s signer) sign(t testing.TB, header, claims any) string {
	t.Helper()
	text := encode(t, header) + "." + encode(t, claims)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	var err error
	switch key := s.key.(type) {
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(text))
	case *ecdsa.PrivateKey:
		r, v, fault := ecdsa.Sign(rand.Reader, key, sum[:])
		signature, err = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...), fault
	default:
		signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	must(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// signHS256 signs with a secret, like an attacker who hopes that the gateway uses a public key as
// the secret.
func signHS256(t testing.TB, secret []byte, header, claims any) string {
	t.Helper()
	text := encode(t, header) + "." + encode(t, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		must(t, err)
		text = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}
