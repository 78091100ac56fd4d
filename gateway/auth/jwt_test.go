package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestJWTs(t *testing.T) {
	r, e, d := newRSA(t, "r", 2048), newEC(t, "e"), newEd(t, "d")
	p := newProvider(t, r.public(), e.public(), d.public())
	p.fetch(t)
	minute := int64(60)
	now := p.clock.Now().Unix()
	for name, text := range map[string]string{
		"RS256":                 p.sign(t, r, nil, nil),
		"ES256":                 p.sign(t, e, nil, nil),
		"EdDSA":                 p.sign(t, d, nil, nil),
		"several audiences":     p.sign(t, e, nil, members{"aud": []string{"other", "millrace"}}),
		"neither iat nor nbf":   p.sign(t, e, nil, members{"iat": nil}),
		"nbf within the leeway": p.sign(t, e, nil, members{"nbf": now + minute}),
		"iat within the leeway": p.sign(t, e, nil, members{"iat": now + minute}),
		"exp within the leeway": p.sign(t, e, nil, members{"exp": now - minute}),
		"fractions of a second": p.sign(t, e, nil, members{"exp": float64(now) + 1.5}),
		"no typ":                p.sign(t, e, members{"typ": nil}, nil),
		// Keys in the header are ignored.
		"jku": p.sign(t, e, members{"jku": "https://evil.example/keys", "x5u": "https://evil.example/x5u"}, nil),
	} {
		shown, err := p.guard.Authenticate(Credentials{Authorization: []string{"Bearer " + text}})
		if err != nil || shown.Name != "jwt:corp#alice" {
			t.Errorf("%s: got %q, %v, want jwt:corp#alice", name, shown.Name, err)
			continue
		}
		if !p.guard.May(shown, Read, "photos") || p.guard.May(shown, Read, "text") {
			t.Errorf("%s: got the rights of another, want those of alice", name)
		}
	}
	if p.requests() != 1 {
		t.Errorf("requests for keys: got %d, want 1", p.requests())
	}
}

func TestJWTsThatAreRefused(t *testing.T) {
	r, e, d := newRSA(t, "r", 2048), newEC(t, "e"), newEd(t, "d")
	mallory, weak := newEC(t, "e"), newRSA(t, "weak", 1024)
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	encrypting := newEC(t, "encrypting").public()
	encrypting.Use = "enc"
	p := newProvider(t, r.public(), e.public(), d.public(), weak.public(), encrypting,
		jose.JSONWebKey{Key: wide.Public(), KeyID: "wide"}, jose.JSONWebKey{Key: []byte("a secret of both ends, 32 bytes.."), KeyID: "oct"})
	p.fetch(t)
	der, err := x509.MarshalPKIXPublicKey(r.key.Public())
	must(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := p.sign(t, e, nil, nil)
	parts := strings.Split(good, ".")
	embedded, err := json.Marshal(mallory.public())
	must(t, err)
	now := p.clock.Now().Unix()
	claims := p.claims(nil)
	plain, err := json.Marshal(claims)
	must(t, err)
	const malformed, wrong = "malformed, or not signed by", "whose signature is wrong, or whose claims are malformed"
	for _, c := range []struct{ name, text, because string }{
		{"alg none", encode(t, members{"alg": "none", "kid": "e"}) + "." + parts[1] + ".", malformed},
		{"alg None", encode(t, members{"alg": "None", "kid": "e"}) + "." + parts[1] + ".", malformed},
		{"alg none with a signature", encode(t, members{"alg": "none", "kid": "e"}) + "." + parts[1] + "." + parts[2], malformed},
		{"no alg", e.sign(t, members{"kid": "e"}, claims), malformed},
		{"no signature", parts[0] + "." + parts[1] + ".", wrong},
		{"two parts", parts[0] + "." + parts[1], "neither a token"},
		{"five parts", good + ".a.b", "neither a token"},
		{"three empty parts", "..", malformed},
		{"HS256 with the public key in PEM", signHS256(t, public, members{"alg": "HS256", "kid": "r"}, claims), malformed},
		{"HS256 with the public key in DER", signHS256(t, der, members{"alg": "HS256", "kid": "r"}, claims), malformed},
		{"HS256 with a published secret", signHS256(t, []byte("a secret of both ends, 32 bytes.."), members{"alg": "HS256", "kid": "oct"}, claims), malformed},
		{"RS384", p.sign(t, r, members{"alg": "RS384"}, nil), malformed},
		{"PS256", p.sign(t, r, members{"alg": "PS256"}, nil), malformed},
		{"RS256 with a key for ES256", p.sign(t, r, members{"kid": "e"}, nil), "no key of the issuer has the JWT's kid and algorithm"},
		{"ES256 with a key for EdDSA", p.sign(t, e, members{"kid": "d"}, nil), "no key of the issuer"},
		{"ES256 that says RS256", p.sign(t, e, members{"alg": "RS256", "kid": "r"}, nil), wrong},
		{"RSA of 1024 bits", p.sign(t, weak, nil, nil), "no key of the issuer"},
		{"a key for encryption", p.sign(t, signer{"encrypting", e.key}, nil, nil), "no key of the issuer"},
		{"a key of P-384", p.sign(t, signer{"wide", e.key}, nil, nil), "no key of the issuer"},
		{"another key of the same kid", p.sign(t, mallory, nil, nil), wrong},
		{"an unknown kid", p.sign(t, signer{"x", e.key}, nil, nil), "no key of the issuer has the JWT's kid"},
		{"no kid", p.sign(t, e, members{"kid": nil}, nil), "no kid, and the issuer has several keys"},
		{"a kid that is a number", p.sign(t, e, members{"kid": 1}, nil), malformed},
		{"an embedded key", p.sign(t, mallory, members{"jwk": json.RawMessage(embedded)}, nil), wrong},
		{"an embedded key without kid", p.sign(t, mallory, members{"jwk": json.RawMessage(embedded), "kid": nil}, nil), "no kid"},
		{"x5u of another", p.sign(t, mallory, members{"x5u": "https://evil.example", "jku": "https://evil.example"}, nil), wrong},
		{"a critical header", p.sign(t, e, members{"crit": []string{"exp"}, "exp": 1}, nil), wrong},
		{"alg twice", e.sign(t, `{"alg":"none","alg":"ES256","kid":"e"}`, claims), malformed},
		{"an altered payload", parts[0] + "." + encode(t, p.claims(members{"sub": "root"})) + "." + parts[2], wrong},
		{"an altered signature", parts[0] + "." + parts[1] + "." + flip(parts[2], 5), wrong},
		{"a signature cut off", good[:len(good)-8], wrong},
		{"a DER signature", parts[0] + "." + parts[1] + "." + encode(t, "0E\x02\x20"), wrong},
		{"claims that are no object", e.sign(t, members{"alg": "ES256", "kid": "e"}, `["iss"]`), "claims are malformed"},
		{"claims cut off", e.sign(t, members{"alg": "ES256", "kid": "e"}, string(plain[:len(plain)-1])), "claims are malformed"},
		{"a claim twice", e.sign(t, members{"alg": "ES256", "kid": "e"}, string(plain[:len(plain)-1])+`,"sub":"root"}`), "claims are malformed"},
		{"iss twice", e.sign(t, members{"alg": "ES256", "kid": "e"}, string(plain[:len(plain)-1])+`,"iss":"x"}`), "claims are malformed"},
		{"claims in other letters", e.sign(t, members{"alg": "ES256", "kid": "e"}, strings.Replace(string(plain), `"iss"`, `"ISS"`, 1)), "of an issuer that"},
		{"no iss", p.sign(t, e, nil, members{"iss": nil}), "of an issuer that is not in the access file"},
		{"another iss", p.sign(t, e, nil, members{"iss": p.URL + "/"}), "of an issuer that is not in the access file"},
		{"no aud", p.sign(t, e, nil, members{"aud": nil}), "a JWT of corp: "},
		{"another aud", p.sign(t, e, nil, members{"aud": "millrace2"}), "invalid audience claim"},
		{"other auds", p.sign(t, e, nil, members{"aud": []string{"a", "b"}}), "invalid audience claim"},
		{"no exp", p.sign(t, e, nil, members{"exp": nil}), "without exp"},
		{"exp is null", e.sign(t, members{"alg": "ES256", "kid": "e"}, strings.Replace(string(plain), fmt.Sprint(claims["exp"]), "null", 1)), "without exp"},
		{"exp is text", p.sign(t, e, nil, members{"exp": fmt.Sprint(now + 100)}), wrong},
		{"exp is endless", p.sign(t, e, nil, members{"exp": json.RawMessage("1e300")}), wrong},
		{"expired", p.sign(t, e, nil, members{"exp": now - 61}), "token is expired"},
		{"not valid yet", p.sign(t, e, nil, members{"nbf": now + 61}), "not valid yet"},
		{"issued in the future", p.sign(t, e, nil, members{"iat": now + 61}), "issued in the future"},
		{"no sub", p.sign(t, e, nil, members{"sub": nil}), "whose claim sub is not a name"},
		{"an empty sub", p.sign(t, e, nil, members{"sub": ""}), "whose claim sub is not a name"},
		{"a sub that is a number", p.sign(t, e, nil, members{"sub": 7}), wrong},
		{"a sub with a line end", p.sign(t, e, nil, members{"sub": "a\nb"}), "whose claim sub is not a name"},
		{"a long sub", p.sign(t, e, nil, members{"sub": strings.Repeat("a", 257)}), "whose claim sub is not a name"},
		{"groups that are numbers", p.sign(t, e, nil, members{"groups": []int{1}}), "whose claim groups is neither a list"},
		{"groups that are an object", p.sign(t, e, nil, members{"groups": members{"ml": true}}), "whose claim groups is neither"},
		{"more than 16 KiB", p.sign(t, e, nil, members{"padding": strings.Repeat("a", 16<<10)}), "more than 16384"},
		{"deep", e.sign(t, members{"alg": "ES256", "kid": "e"}, strings.Repeat("[", 12000)), "claims are malformed"},
		{"JSON serialization", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "has invalid characters"},
		{"with line ends", parts[0] + ".\n" + parts[1] + "." + parts[2], "has invalid characters"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, p.guard, c.because, "Bearer "+c.text) })
	}
	if p.requests() != 1 {
		t.Errorf("requests for keys: got %d, want 1: no request waits for the issuer", p.requests())
	}
}

func TestGroups(t *testing.T) {
	e := newEC(t, "")
	p := newProvider(t, e.public())
	p.fetch(t)
	for _, c := range []struct {
		groups any
		want   bool
	}{
		{[]string{"sales", "ml"}, true},
		{"ml", true},
		{[]string{"sales"}, false},
		{[]string{}, false},
		{nil, false},
		{"ML", false},
		{[]string{"", "ml\n", "\x00"}, false},
		{json.RawMessage("null"), false},
	} {
		shown := mustBe(t, p.guard, p.sign(t, e, members{"kid": nil}, members{"groups": c.groups}))
		if got := p.guard.May(shown, Read, "text"); got != c.want {
			t.Errorf("groups %q: got %t, want %t", c.groups, got, c.want)
		}
		if len(shown.who) > 2 {
			t.Errorf("groups %q: got %q, want no group that the file does not name", c.groups, shown.who)
		}
	}
}

func TestValidSubject(t *testing.T) {
	for subject, valid := range map[string]bool{
		"": false, "a b/é": true, strings.Repeat("x", maxName): true, strings.Repeat("x", maxName+1): false, "a\n": false, "\xff": false, "\u0085": false,
	} {
		if got := validSubject(subject); got != valid {
			t.Errorf("%.20q, %d bytes: got valid %t", subject, len(subject), got)
		}
	}
}

// TestTheSubjectIsTheClaimThatTheFileNames checks the configured claim. It also checks that groups
// are ignored unless the file configures their claim.
func TestTheSubjectIsTheClaimThatTheFileNames(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.file.put(t, strings.Replace(p.access("audience: millrace, subject: email"), `{who: ["group:corp#ml"]`, `{who: ["jwt:corp#ml"]`, 1))
	must(t, p.guard.Reload())
	p.fetch(t)
	shown := mustBe(t, p.guard, p.sign(t, e, nil, members{"email": "a@b.example", "groups": "ml"}))
	if shown.Name != "jwt:corp#a@b.example" || !slices.Equal(shown.who, []string{shown.Name}) {
		t.Errorf("got %q with %q, want the claim email, and no groups", shown.Name, shown.who)
	}
	refused(t, p.guard, "whose claim email is not a name", "Bearer "+p.sign(t, e, nil, nil))
}

func TestAnIssuerIsOneOfSeveral(t *testing.T) {
	a, b := newEC(t, "same"), newEC(t, "same")
	p, q := newProvider(t, a.public()), newProvider(t, b.public())
	transport := p.guard.cfg.HTTP
	file := newFile(t, fmt.Sprintf(`
issuers: [{name: a, issuer: "%s", audience: millrace}, {name: b, issuer: "%s", audience: other}]
grants: [{who: [anonymous], datasets: [open], rights: [read]}]`, p.URL, q.URL))
	g, err := Open(Config{File: string(file), HTTP: transport, Now: p.clock.Now})
	must(t, err)
	g.FetchKeys(t.Context())
	for name, text := range map[string]string{"jwt:a#alice": p.sign(t, a, nil, nil), "jwt:b#alice": q.sign(t, b, nil, members{"aud": "other"})} {
		if shown := mustBe(t, g, text); shown.Name != name {
			t.Errorf("got %s, want %s", shown.Name, name)
		}
	}
	refused(t, g, "a JWT of a whose signature is wrong", "Bearer "+p.sign(t, b, nil, nil))
	refused(t, g, "invalid audience", "Bearer "+p.sign(t, a, nil, members{"aud": "other"}))
}

func TestExpiryOfAJWTFollowsTheClock(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	text := p.sign(t, e, nil, nil)
	p.clock.add(6 * time.Minute)
	who := mustBe(t, p.guard, text)
	if !p.guard.May(who, Read, "photos") {
		t.Error("within the leeway: got no rights, want them")
	}
	p.clock.add(time.Second)
	refused(t, p.guard, "expired", "Bearer "+text)
	if p.guard.May(who, Read, "photos") {
		t.Error("the rest of a long answer: got the rights, want none")
	}
}

// TestAJWTIsRememberedToTheByte: a verified JWT in the cache does not authenticate a JWT that
// differs in one byte.
func TestAJWTIsRememberedToTheByte(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	text := p.sign(t, e, nil, nil)
	mustBe(t, p.guard, text)
	for i := range len(text) - 1 {
		other := []byte(text)
		switch {
		case text[i] == '.':
			other[i] = 'A'
		case text[i+1] == '.': // two different last characters may decode to the same byte
			continue
		default:
			other[i]++
		}
		refused(t, p.guard, "", "Bearer "+string(other))
	}
	mustBe(t, p.guard, text)
}

// TestRememberedJWTsAreBounded: the full cache is cleared as a whole, and JWTs are verified again.
func TestRememberedJWTsAreBounded(t *testing.T) {
	e := newEd(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	for i := range maxProofs + 10 {
		mustBe(t, p.guard, p.sign(t, e, nil, members{"jti": fmt.Sprint(i)}))
	}
	if n := len(p.guard.policy.Load().proofs.of); n != 10 {
		t.Errorf("got %d JWTs remembered, want 10: those after the first %d", n, maxProofs)
	}
}

func BenchmarkJWT(b *testing.B) {
	e := newRSA(b, "e", 2048)
	p := newProvider(b, e.public())
	p.fetch(b)
	shown := Credentials{Authorization: []string{"Bearer " + p.sign(b, e, nil, nil)}}
	for b.Loop() {
		if _, err := p.guard.Authenticate(shown); err != nil {
			b.Fatal(err)
		}
	}
}
