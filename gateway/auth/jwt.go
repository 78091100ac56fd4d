package auth

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// leeway is by how much the clocks of an issuer and a gateway may differ.
const leeway = time.Minute

// algorithms are those by which a JWT may be signed. None of them takes a secret that both ends
// know, so that a public key can never be taken for one.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
}

// isJWT reports whether a text has the form of a JWT: three parts.
func isJWT(text string) bool { return strings.Count(text, ".") == 2 }

// byJWT returns the principal of a JWT. The issuer is chosen by a claim that is not proved yet; the
// issuer's keys then prove it. No error repeats what the JWT says before that.
func (p *policy) byJWT(text string, now time.Time) (Principal, error) {
	signed, err := jwt.ParseSigned(text, algorithms())
	if err != nil {
		return Principal{}, invalid("a JWT that is malformed, or not signed by RS256, ES256 or EdDSA")
	}
	var unproved struct {
		Issuer string `json:"iss"`
	}
	if err := signed.UnsafeClaimsWithoutVerification(&unproved); err != nil {
		return Principal{}, invalid("a JWT whose claims are malformed")
	}
	for i := range p.issuers {
		if p.issuers[i].url == unproved.Issuer {
			return p.byIssuer(&p.issuers[i], signed, now)
		}
	}
	return Principal{}, invalid("a JWT of an issuer that the access file does not name")
}

// byIssuer returns the principal of a JWT of an issuer.
func (p *policy) byIssuer(is *issuer, signed *jwt.JSONWebToken, now time.Time) (Principal, error) {
	key, err := is.keys.find(signed.Headers[0], now)
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

// issuedTo makes a principal of claims that are proved.
func (p *policy) issuedTo(is *issuer, claims map[string]json.RawMessage) (Principal, error) {
	var subject string
	if json.Unmarshal(claims[is.subject], &subject) != nil || !validSubject(subject) {
		return Principal{}, invalid("a JWT of %s whose claim %s is no name of 1 to %d bytes without control characters", is.name, is.subject, maxName)
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
		if group := "group:" + is.name + "#" + g; p.means(group) { // an issuer may list hundreds
			who.who = append(who.who, group)
		}
	}
	return who, nil
}

// names reads a list of names, or one name.
func names(text json.RawMessage) ([]string, error) {
	var list []string
	var one string
	if json.Unmarshal(text, &one) == nil {
		return []string{one}, nil
	}
	return list, json.Unmarshal(text, &list)
}

// errUnknownKey refuses a JWT whose key is not among those that the issuer last published.
var errUnknownKey = errors.New("no key of the issuer has the JWT's kid and algorithm")

// find returns the key that a JWT's header means. Keys that the header itself holds, or points to,
// are never used. The request does not wait for an issuer: a kid that is not known asks for the
// next fetch.
func (k *keyring) find(header jose.Header, now time.Time) (any, error) {
	set := k.set.Load()
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
