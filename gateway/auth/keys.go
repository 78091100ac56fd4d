package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	keysLast    = 24 * time.Hour   // revoked keys are accepted for at most this long
	fetchEvery  = time.Hour        // issuers publish a key long before they sign with it
	fetchSoon   = time.Minute      // limits fetches, since any caller can invent a kid
	fetchFirst  = 10 * time.Second // while no key is known
	fetchLasts  = 10 * time.Second // timeout for both requests together
	maxAnswer   = 1 << 20          // maximum bytes per response of an issuer
	minRSA      = 2048             // bits: smaller keys are insecure
	maxRSA      = 4096             // bits: jose rejects larger keys, and they would slow down each request
	maxRedirect = 3
)

// ErrNoKeys is wrapped by a rejection if the keys of a JWT's issuer are unknown, because the issuer
// has been unreachable since the gateway started or for a day. The same JWT may be accepted later.
var ErrNoKeys = errors.New("the issuer's keys could not be fetched within 24 h")

// keyring holds the keys of an issuer.
type keyring struct {
	set      atomic.Pointer[keySet] // nil before the first fetch
	wanted   atomic.Bool            // a JWT had an unknown kid
	failures atomic.Int64

	mu      sync.Mutex // guards the fields below
	tried   time.Time  // start of the last fetch; zero: never
	failing bool       // the last fetch failed
	busy    bool       // a fetch is in progress
}

// keySet is the set of keys that an issuer published at one time. Each key has its algorithm.
type keySet struct {
	keys    []jose.JSONWebKey
	fetched time.Time
}

// begin reports whether a fetch is due, and if so marks it as started.
func (k *keyring) begin(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := fetchEvery
	switch {
	case k.set.Load() == nil:
		wait = fetchFirst
	case k.failing || k.wanted.Load():
		wait = fetchSoon
	}
	if k.busy || !k.tried.IsZero() && now.Sub(k.tried) < wait {
		return false
	}
	k.busy, k.tried = true, now
	k.wanted.Store(false)
	return true
}

// end records the result of a fetch. It reports whether Config.Keys should receive the result: each
// failure, and the first success after a failure.
func (k *keyring) end(set *keySet, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := err != nil || k.failing || k.set.Load() == nil
	k.busy, k.failing = false, err != nil
	if err == nil {
		k.set.Store(set)
	} else {
		k.failures.Add(1)
	}
	return news
}

func (is *issuer) stats(now time.Time) IssuerStats {
	s := IssuerStats{Name: is.name, Failures: is.keys.failures.Load()}
	if set := is.keys.set.Load(); set != nil {
		s.Fetched = set.fetched
		if now.Sub(set.fetched) < keysLast {
			s.Keys = len(set.keys)
		}
	}
	return s
}

// FetchKeys fetches the missing keys of all issuers and waits for them. A gateway calls it before
// it listens, so that the first JWTs are not rejected. Failures are reported only through
// Config.Keys; Run retries them.
func (g *Guard) FetchKeys(ctx context.Context) {
	var fetching sync.WaitGroup
	g.fetchDue(ctx, &fetching)
	fetching.Wait()
}

// fetchDue starts the fetches that are due.
func (g *Guard) fetchDue(ctx context.Context, fetching *sync.WaitGroup) {
	p := g.policy.Load()
	for i := range p.issuers {
		is := &p.issuers[i]
		if is.keys.begin(g.cfg.Now()) {
			fetching.Go(func() {
				set, err := g.fetch(ctx, is)
				if news := is.keys.end(set, err); news && ctx.Err() == nil {
					g.cfg.Keys(is.name, err)
				}
			})
		}
	}
}

// fetch fetches the keys of an issuer: first the discovery document, then its jwks_uri.
func (g *Guard) fetch(ctx context.Context, is *issuer) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLasts)
	defer cancel()
	now := g.cfg.Now()
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	address := strings.TrimSuffix(is.url, "/") + "/.well-known/openid-configuration"
	if err := g.get(ctx, address, &about); err != nil {
		return nil, err
	}
	if about.Issuer != is.url {
		return nil, fmt.Errorf("%s: belongs to issuer %.300q, expected %q", address, about.Issuer, is.url)
	}
	if u, err := url.Parse(about.Keys); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: jwks_uri must be an https URL", address)
	}
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := g.get(ctx, about.Keys, &published); err != nil {
		return nil, err
	}
	set := &keySet{fetched: now}
	for _, text := range published.Keys {
		if key, ok := usable(text); ok {
			set.keys = append(set.keys, key)
		}
	}
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("%.300s: none of %d keys is for RS256 (%d to %d bits), ES256 or EdDSA", about.Keys, len(published.Keys), minRSA, maxRSA)
	}
	return set, nil
}

// usable parses a key and reports whether JWTs may be signed with it. A key without an algorithm
// gets the algorithm of its type, so that a key is never used with two algorithms.
func usable(text []byte) (jose.JSONWebKey, bool) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(text); err != nil { // possibly an unknown key type
		return key, false
	}
	key = key.Public()
	var algorithm jose.SignatureAlgorithm
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= minRSA && bits <= maxRSA {
			algorithm = jose.RS256
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			algorithm = jose.ES256
		}
	case ed25519.PublicKey:
		algorithm = jose.EdDSA
	}
	if algorithm == "" || key.Algorithm != "" && key.Algorithm != string(algorithm) || key.Use != "" && key.Use != "sig" {
		return key, false
	}
	key.Algorithm = string(algorithm)
	return key, true
}

// get fetches JSON from an issuer.
func (g *Guard) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	client := http.Client{Transport: g.cfg.HTTP, CheckRedirect: redirect}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%.300s: %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%.300s: %w", address, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%.300s: more than %d bytes", address, maxAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%.300s: %w", address, err)
	}
	return nil
}

// redirect allows redirects only within the issuer's host.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirect || req.URL.Scheme != via[0].URL.Scheme || req.URL.Host != via[0].URL.Host {
		return errors.New("the server redirects to another host, or too often")
	}
	return nil
}

// newTransport returns the default transport for issuers. It keeps no idle connections, since the
// next request is an hour away.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives, t.MaxResponseHeaderBytes = true, 64<<10
	return t
}
