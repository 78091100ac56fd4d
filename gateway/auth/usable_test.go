package auth

import (
	"crypto/rsa"
	"math/big"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// TestUsable_DecidesByKindSizeAlgorithmAndUse checks which published keys may verify a JWT.
func TestUsable_DecidesByKindSizeAlgorithmAndUse(t *testing.T) {
	ofBits := func(bits uint) *rsa.PublicKey {
		n := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
	}
	ec, ed := newEC(t, ""), newEd(t, "")
	for _, c := range []struct {
		name string
		key  jose.JSONWebKey
		want string
	}{
		{"RSA below the least size", jose.JSONWebKey{Key: ofBits(minRSA - 1)}, ""},
		{"RSA of the least size", jose.JSONWebKey{Key: ofBits(minRSA)}, "RS256"},
		{"RSA of the greatest size", jose.JSONWebKey{Key: ofBits(maxRSA)}, "RS256"},
		{"RSA above the greatest size", jose.JSONWebKey{Key: ofBits(maxRSA + 1)}, ""},
		{"RSA for RS256", jose.JSONWebKey{Key: ofBits(minRSA), Algorithm: "RS256"}, "RS256"},
		{"RSA for RS512", jose.JSONWebKey{Key: ofBits(minRSA), Algorithm: "RS512"}, ""},
		{"RSA for ES256", jose.JSONWebKey{Key: ofBits(minRSA), Algorithm: "ES256"}, ""},
		{"P-256", jose.JSONWebKey{Key: ec.key.Public()}, "ES256"},
		{"P-256, private", jose.JSONWebKey{Key: ec.key}, "ES256"},
		{"P-256 for signatures", jose.JSONWebKey{Key: ec.key.Public(), Use: "sig"}, "ES256"},
		{"P-256 for encryption", jose.JSONWebKey{Key: ec.key.Public(), Use: "enc", Algorithm: "ES256"}, ""},
		{"Ed25519", jose.JSONWebKey{Key: ed.key.Public(), Use: "sig", Algorithm: "EdDSA"}, "EdDSA"},
		{"a secret", jose.JSONWebKey{Key: []byte("secret")}, ""},
	} {
		text, err := c.key.MarshalJSON()
		must(t, err)
		key, ok := usable(text)
		if ok != (c.want != "") || ok && (key.Algorithm != c.want || !key.IsPublic()) {
			t.Errorf("%s: got usable %t, algorithm %q, public %t; want %q", c.name, ok, key.Algorithm, key.IsPublic(), c.want)
		}
	}
}
