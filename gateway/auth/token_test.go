package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestNewTokens(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		text, digest := NewToken()
		if !regexp.MustCompile(`^mr_[A-Za-z0-9_-]{43}$`).MatchString(text) || !isToken(text) {
			t.Fatalf("token: got %q, want mr_ and 43 characters of base64url", text)
		}
		if sum := sha256.Sum256([]byte(text)); digest != hex.EncodeToString(sum[:]) {
			t.Fatalf("digest of %s: got %s, want its SHA-256", text, digest)
		}
		seen[text] = true
	}
	if len(seen) != 100 {
		t.Errorf("different tokens among 100: got %d", len(seen))
	}
}

// flip returns a token with a different character at one position.
func flip(text string, at int) string {
	c := byte('A')
	if text[at] == c {
		c = 'B'
	}
	return text[:at] + string(c) + text[at+1:]
}

func TestTokens(t *testing.T) {
	trainer, d1 := NewToken()
	next, d2 := NewToken()
	late, d3 := NewToken()
	other, d4 := NewToken()
	g := mustOpen(t, fmt.Sprintf(`tokens:
  - {name: trainer, sha256: %s}
  - {name: trainer, sha256: %s, expires: 2026-11-22T12:00:01Z}
  - {name: late, sha256: %s, expires: 2026-11-22T13:00:00+01:00}
  - {name: other, sha256: %s}
grants:
  - {who: ["token:trainer"], datasets: [photos], rights: [read]}
`, d1, d2, d3, strings.ToUpper(d4)))
	for header, want := range map[string]string{
		"Bearer " + trainer: "token:trainer", "bearer " + trainer: "token:trainer", "BEARER   " + next: "token:trainer",
		"Bearer " + other: "token:other",
	} {
		if p, err := g.Authenticate(Credentials{Authorization: []string{header}}); err != nil || p.Name != want || p.Anonymous() {
			t.Errorf("%.10s: got %q, %v, want %s", header, p.Name, err, want)
		}
	}
	unknown, _ := NewToken()
	for because, headers := range map[string][]string{
		"2 Authorization headers":   {"Bearer " + trainer, "Bearer " + trainer},
		"no token after Bearer":     {"Bearer "},
		"not of the form":           {""},
		"the form: Bearer":          {trainer},
		"of the form: Bearer TOKEN": {"Basic " + trainer},
		"form: Bearer TOKEN":        {"Bearer\t" + trainer},
		"more than 16384":           {"Bearer " + strings.Repeat("m", 1<<20)},
		"no such token":             {"Bearer " + unknown},
		"no such":                   {"Bearer " + flip(trainer, len(trainer)-1)},
		"no suc":                    {"Bearer " + flip(trainer, 3)},
		"neither a token":           {"Bearer " + trainer[:len(trainer)-1]},
		"neither a tok":             {"Bearer " + trainer + "A"},
		"neither a":                 {"Bearer " + strings.ToUpper(trainer)},
		"neither":                   {"Bearer mr_" + strings.Repeat("/", 43)},
		"invalid characters":        {"Bearer " + trainer + ", Bearer " + trainer},
		"invalid character":         {"Bearer " + trainer[:10] + "\x00" + trainer[11:]},
		"invalid charact":           {"Bearer " + trainer + " "},
		"invalid char":              {"Bearer " + trainer[:10] + "é" + trainer[12:]},
		"token:late expired at":     {"Bearer " + late},
	} {
		refused(t, g, because, headers...)
	}
}

// TestConceal: logs contain no secret that a caller put in the wrong place, even a truncated one.
func TestConceal(t *testing.T) {
	token, _ := NewToken()
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	for text, want := range map[string]string{
		"dataset photos is not served":   "dataset photos is not served",
		"/epoch/0?token=" + token + "&a": "/epoch/0?token=[concealed]&a",
		token[:23]:                       "[concealed]",
		token[:22]:                       token[:22], // only 19 characters of a secret: names such as mr_smith are not concealed
		"Bearer " + jwt + ", mr_smith":   "Bearer [concealed], mr_smith",
		"eyJhbGciOiJ.x":                  "[concealed]",
		"a " + token + " b " + token:     "a [concealed] b [concealed]",
	} {
		if got := Conceal(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestTokensAreComparedWhole checks that a token does not match a digest that differs in one byte.
func TestTokensAreComparedWhole(t *testing.T) {
	text, digest := NewToken()
	for i := 0; i < len(digest); i += 2 {
		other := digest[:i] + "00" + digest[i+2:]
		if other == digest {
			other = digest[:i] + "01" + digest[i+2:]
		}
		g := mustOpen(t, "tokens: [{name: a, sha256: '"+other+"'}]\n"+opens)
		refused(t, g, "no such token", "Bearer "+text)
	}
}

func TestTokensExpire(t *testing.T) {
	text, digest := NewToken()
	clock := newClock()
	file := newFile(t, fmt.Sprintf(`
tokens: [{name: a, sha256: %s, expires: 2026-11-22T12:00:10Z}]
grants: [{who: [anonymous], datasets: [open], rights: [read]}]`, digest))
	g, err := Open(Config{File: string(file), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	clock.add(10*time.Second - 1)
	mustBe(t, g, text)
	clock.add(1)
	refused(t, g, "token:a expired at 2026-11-22T12:00:10Z", "Bearer "+text)
}

// TestRightsEndWithTheToken: a principal has no rights after its token expires. A long response
// checks the rights again.
func TestRightsEndWithTheToken(t *testing.T) {
	text, sum := NewToken()
	_, next := NewToken()
	clock := newClock()
	const grants = "\ngrants: [{who: ['token:a', 'token:b'], datasets: [photos], rights: [read, admin]}]\n"
	both := "tokens: [{name: a, sha256: " + next + "}, {name: b, sha256: " + strings.Repeat("0", 64) + "}, {name: a, sha256: " + sum
	file := newFile(t, both+", expires: 2026-11-22T12:00:10Z}]"+grants)
	g, err := Open(Config{File: string(file), Now: clock.Now})
	must(t, err)
	p := mustBe(t, g, text)
	may := func(what string, want bool) {
		t.Helper()
		if got := g.May(p, Read, "photos"); got != want {
			t.Errorf("%s: read is %t, want %t", what, got, want)
		}
		if got := g.May(p, Admin, ""); got != want {
			t.Errorf("%s: admin is %t, want %t", what, got, want)
		}
	}
	may("at first", true)
	file.put(t, both+", expires: 2026-11-22T12:00:05Z}]"+grants)
	must(t, g.Reload())
	may("expires earlier", true)
	clock.add(5 * time.Second)
	may("expired", false)
	file.put(t, both+"}]"+grants)
	must(t, g.Reload())
	may("expires no more", true)
	file.put(t, "tokens: [{name: b, sha256: "+sum+"}, {name: a, sha256: "+next+"}]"+grants)
	must(t, g.Reload())
	may("the token of another name", false)
	file.put(t, "tokens: [{name: a, sha256: "+next+"}, {name: b, sha256: "+strings.Repeat("0", 64)+"}]"+grants)
	must(t, g.Reload())
	may("another token of the name", false)
	if !g.May(p, None, "") {
		t.Error("what needs no right: got it refused")
	}
}

func TestWithoutCredentialsTheCallerIsAnonymous(t *testing.T) {
	g := mustOpen(t, `grants: [{who: [anonymous], datasets: [open], rights: [read]}]`)
	p, err := g.Authenticate(Credentials{})
	if err != nil || !p.Anonymous() || p.Name != "anonymous" {
		t.Errorf("no credentials: got %q, %v, want anonymous", p.Name, err)
	}
}

func TestATokenIsLookedUpWithoutAllocating(t *testing.T) {
	text, digest := NewToken()
	g := mustOpen(t, fmt.Sprintf(`
tokens: [{name: a, sha256: %s}]
grants: [{who: ["token:a"], datasets: ["x", "photos-*"], rights: [read]}]`, digest))
	shown := Credentials{Authorization: []string{"Bearer " + text}}
	p := mustBe(t, g, text)
	ok := true
	n := testing.AllocsPerRun(100, func() {
		_, err := g.Authenticate(shown)
		ok = ok && err == nil && g.May(p, Read, "photos-1") && !g.May(p, Read, "photo") && g.Limits(p) == Limits{}
	})
	if n != 0 || !ok {
		t.Errorf("allocations of a request: got %v (right answers: %t), want 0", n, ok)
	}
}

func TestBearer_AcceptsTheLongestHeader(t *testing.T) {
	longest := "Bearer " + strings.Repeat("a", maxAuthorization-len("Bearer "))
	if text, err := bearer([]string{longest}); err != nil || len(text) != maxAuthorization-len("Bearer ") {
		t.Errorf("%d bytes: got a token of %d bytes, %v", len(longest), len(text), err)
	}
	if _, err := bearer([]string{longest + "a"}); err == nil {
		t.Errorf("%d bytes: got no error", len(longest)+1)
	}
}

func TestValidName_BoundsTheLength(t *testing.T) {
	for n, want := range map[int]bool{0: false, 1: true, 128: true, 129: false} {
		if got := ValidName(strings.Repeat("a", n)); got != want {
			t.Errorf("%d letters: got %v, want %v", n, got, want)
		}
	}
}
