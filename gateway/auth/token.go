package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
)

const (
	tokenPrefix = "mr_" // lets people and secret scanners recognize a token
	tokenSecret = 32    // random bytes: 256 bits cannot be guessed, so a plain SHA-256 is a safe hash

	// maxAuthorization bounds an Authorization header in bytes. JWTs with many groups have several
	// KiB.
	maxAuthorization = 16 << 10
)

// NewToken generates a token. It returns the text for its holder, and its SHA-256 for an access
// file.
func NewToken() (text, digest string) {
	secret := make([]byte, tokenSecret)
	rand.Read(secret) // never fails
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(text))
	return text, hex.EncodeToString(sum[:])
}

// secrets matches tokens and JWTs, and truncated ones.
var secrets = regexp.MustCompile(`mr_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*){0,2}`)

// Conceal removes tokens and JWTs from a text for logs, since callers may put them in the wrong
// place.
func Conceal(text string) string {
	if !strings.Contains(text, tokenPrefix) && !strings.Contains(text, "eyJ") {
		return text
	}
	return secrets.ReplaceAllString(text, "[concealed]")
}

// isToken reports whether a text has the form of a token.
func isToken(text string) bool {
	secret, ok := strings.CutPrefix(text, tokenPrefix)
	return ok && len(secret) == base64.RawURLEncoding.EncodedLen(tokenSecret) && !strings.ContainsFunc(secret, notBase64URL)
}

func notBase64URL(c rune) bool { return !alphanumeric(c) && c != '-' && c != '_' }

func alphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// bearer returns the value after "Bearer" in a request's single Authorization header. Errors
// contain no part of the header, which may be a secret.
func bearer(values []string) (string, error) {
	if len(values) != 1 {
		return "", invalid("%d Authorization headers", len(values))
	}
	if len(values[0]) > maxAuthorization {
		return "", invalid("the Authorization header has %d bytes, more than %d", len(values[0]), maxAuthorization)
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", invalid("the Authorization header is not of the form: Bearer TOKEN")
	}
	text = strings.TrimLeft(text, " ")
	if text == "" {
		return "", invalid("no token after Bearer")
	}
	if strings.ContainsFunc(text, func(c rune) bool { return !alphanumeric(c) && !strings.ContainsRune("-._~+/=", c) }) {
		return "", invalid("the Authorization header has invalid characters")
	}
	return text, nil
}

// digest is the SHA-256 of a token's text.
type digest [sha256.Size]byte

// token is a token entry of an access file.
type token struct {
	sum       digest
	expires   time.Time // zero: never
	principal Principal
}

// byToken returns the principal of a token. It compares all tokens in constant time.
func (p *policy) byToken(text string, now time.Time) (Principal, error) {
	var room [64]byte // on the stack, to avoid an allocation
	sum, found := sha256.Sum256(append(room[:0], text...)), -1
	for i := range p.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], p.tokens[i].sum[:]), i, found)
	}
	if found < 0 {
		return Principal{}, invalid("no such token")
	}
	t := &p.tokens[found]
	if !t.stands(now) {
		return Principal{}, invalid("%s expired at %s", t.principal.Name, t.expires.UTC().Format(time.RFC3339))
	}
	return t.principal, nil
}

func (t *token) stands(now time.Time) bool { return t.expires.IsZero() || now.Before(t.expires) }
