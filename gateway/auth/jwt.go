package auth

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// leeway is the allowed difference between the clocks of an issuer and the gateway.
const leeway = time.Minute

// algorithms returns the accepted signature algorithms. None is symmetric, so that a public key can
// never be used as a shared secret.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
}

// isJWT reports whether a text has the form of a JWT: three parts.
func isJWT(text string) bool { return strings.Count(text, ".") == 2 }

// maxProofs is the maximum number of cached JWTs. A job sends the same JWT with each request.
const maxProofs = 4096

// proofs caches verified JWTs. Verifying a signature takes about as long as sending a batch.
type proofs struct {
	mu sync.Mutex // guards of
	of map[digest]proof
}

// proof is valid while the issuer's keys are unchanged and the JWT has not expired.
type proof struct {
	who  Principal
	ring *keyring
	keys *keySet
}

// byJWT returns the principal of a JWT.
func (p *policy) byJWT(text string, now time.Time) (Principal, error) {
	name := digest(sha256.Sum256([]byte(text)))
	p.proofs.mu.Lock()
	known, ok := p.proofs.of[name]
	p.proofs.mu.Unlock()
	if ok && known.ring.set.Load() == known.keys && now.Sub(known.keys.fetched) < keysLast && now.Before(known.who.until) {
		return known.who, nil
	}
	found, err := p.prove(text, now)
	if err != nil {
		return Principal{}, err
	}
	p.proofs.mu.Lock()
	defer p.proofs.mu.Unlock()
	if len(p.proofs.of) >= maxProofs {
		clear(p.proofs.of)
	}
	p.proofs.of[name] = found
	return found.who, nil
}

// prove verifies a JWT. The unverified claim iss selects the issuer, whose keys then verify it.
// Errors contain no unverified claims.
func (p *policy) prove(text string, now time.Time) (proof, error) {
	signed, err := jwt.ParseSigned(text, algorithms())
	if err != nil {
		return proof{}, invalid("a JWT that is malformed, or not signed by RS256, ES256 or EdDSA")
	}
	var unproved struct {
		Issuer string `json:"iss"`
	}
	if err := signed.UnsafeClaimsWithoutVerification(&unproved); err != nil {
		return proof{}, invalid("a JWT whose claims are malformed")
	}
	for i := range p.issuers {
		if is := &p.issuers[i]; is.url == unproved.Issuer {
			keys := is.keys.set.Load()
			who, err := p.byIssuer(is, keys, signed, now)
			return proof{who, is.keys, keys}, err
		}
	}
	return proof{}, invalid("a JWT of an issuer that is not in the access file")
}

// byIssuer returns the principal of a JWT that the issuer's keys verify.
func (p *policy) byIssuer(is *issuer, keys *keySet, signed *jwt.JSONWebToken, now time.Time) (Principal, error) {
	key, err := is.keys.find(keys, signed.Headers[0], now)
	if err != nil {
		return Principal{}, invalid("a JWT of %s: %w", is.name, err)
	}
	var standard jwt.Claims
	var all map[string]json.RawMessage
	if err := signed.Claims(key, &standard, &all); err != nil {
		return Principal{}, invalid("a JWT of %s whose signature is wrong, or whose claims are malformed", is.name)
	}
	if standard.Expiry == nil {
		return Principal{}, invalid("a JWT of %s without exp", is.name)
	}
	want := jwt.Expected{Issuer: is.url, AnyAudience: jwt.Audience{is.audience}, Time: now}
	if err := standard.ValidateWithLeeway(want, leeway); err != nil {
		return Principal{}, invalid("a JWT of %s: %w", is.name, err)
	}
	who, err := p.issuedTo(is, all)
	if err == nil {
		who.until = standard.Expiry.Time().Add(leeway)
	}
	return who, err
}

// issuedTo returns the principal of verified claims.
func (p *policy) issuedTo(is *issuer, claims map[string]json.RawMessage) (Principal, error) {
	var subject string
	if json.Unmarshal(claims[is.subject], &subject) != nil || !validSubject(subject) {
		return Principal{}, invalid("a JWT of %s whose claim %s is not a name of 1 to %d bytes without control characters", is.name, is.subject, maxName)
	}
	name := "jwt:" + is.name + "#" + subject
	who := Principal{Name: name, who: []string{name}}
	if is.groups == "" || claims[is.groups] == nil {
		return who, nil
	}
	groups, err := names(claims[is.groups])
	if err != nil {
		return Principal{}, invalid("a JWT of %s whose claim %s is neither a list of names nor one name", is.name, is.groups)
	}
	for _, g := range groups {
		if group := "group:" + is.name + "#" + g; p.means(group) { // an issuer may list hundreds of groups
			who.who = append(who.who, group)
		}
	}
	return who, nil
}

// names parses a list of names, or a single name.
func names(text json.RawMessage) ([]string, error) {
	var list []string
	var one string
	if json.Unmarshal(text, &one) == nil {
		return []string{one}, nil
	}
	return list, json.Unmarshal(text, &list)
}

// errUnknownKey rejects a JWT whose key is not among the keys that the issuer last published.
var errUnknownKey = errors.New("no key of the issuer has the JWT's kid and algorithm")

// find returns the key of a set that a JWT's header selects. It never uses keys in the header
// itself, or URLs of keys. Requests do not wait for an issuer: an unknown kid only makes the next
// fetch due earlier.
func (k *keyring) find(set *keySet, header jose.Header, now time.Time) (any, error) {
	if set == nil || now.Sub(set.fetched) >= keysLast {
		return nil, ErrNoKeys
	}
	if header.KeyID == "" && len(set.keys) > 1 {
		return nil, errors.New("no kid, and the issuer has several keys")
	}
	known := false
	for i := range set.keys {
		key := &set.keys[i]
		if header.KeyID != "" && key.KeyID != header.KeyID {
			continue
		}
		known = true
		if key.Algorithm == header.Algorithm {
			return key.Key, nil
		}
	}
	if !known {
		k.wanted.Store(true)
	}
	return nil, errUnknownKey
}
