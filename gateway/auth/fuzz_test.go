package auth

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzAccessFile parses any text. The result is a valid policy, or faults with lines of the text.
func FuzzAccessFile(f *testing.F) {
	example, err := os.ReadFile("testdata/access.yaml")
	must(f, err)
	for _, s := range []string{string(example), rightsFile, certificatesFile, opens, "", "- a", "a: &a [*a]", "? {}\n: b", "grants: !!binary aGk=\n", "\xff", "%YAML 9.9\n---\n"} {
		f.Add([]byte(s))
	}
	line := regexp.MustCompile(`^f\.yaml:(\d+): .`)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parse("f.yaml", text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want one of both", p, err)
		}
		if err != nil {
			if !line.MatchString(err.Error()) {
				t.Errorf("got %q, want a fault with its line", err)
			}
			return
		}
		for who, permits := range p.permits {
			kind, name, _ := strings.Cut(who, ":")
			if who != anonymous && (kind != "token" && kind != "jwt" && kind != "group" && kind != "certificate" && kind != "uid" || name == "" || strings.Contains(name, "*")) {
				t.Errorf("a grant to %q: got it accepted, want a fault", who)
			}
			for dataset, set := range permits.datasets {
				if set&setOf(Read) == 0 && set&sources != 0 {
					t.Errorf("sources of %s without read", dataset)
				}
			}
		}
		for i := range p.tokens {
			if p.tokens[i].sum == [32]byte{} && !strings.Contains(string(text), strings.Repeat("0", 64)) {
				t.Errorf("a token without a digest: got it accepted, want a fault")
			}
		}
		for _, l := range p.limits {
			if l == (Limits{}) || l.Memory < 0 || l.Memory > 1 || l.Requests < 0 {
				t.Errorf("limits %+v: got them accepted, want a fault", l)
			}
		}
	})
}

// FuzzAuthorization tries any header: only the holder of the token or the JWT is authenticated, and
// no reason contains the header.
func FuzzAuthorization(f *testing.F) {
	const token = "mr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	e := newEC(f, "e")
	p := newProvider(f, e.public())
	text := strings.Replace(p.access("audience: millrace, groups: groups"), "grants:", "tokens: [{name: a, sha256: 43fadfafbbd7eb7c934d686c90d15ec422f6fb453be9d5088e71f9b31b0d1fd5}]\ngrants:", 1)
	p.file.put(f, text)
	must(f, p.guard.Reload())
	p.fetch(f)
	good := p.sign(f, e, nil, members{"exp": p.clock.Now().Add(100 * time.Hour).Unix()})
	for _, s := range []string{
		"Bearer " + token, "Bearer " + good, "bearer  " + good, "Basic YTpi", "Bearer", "", "Bearer a.b.c", "Bearer " + good + "=", "Bearer eyJhbGciOiJub25lIn0.e30.",
		"Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA", "Bearer ..", "\x00", "Bearer " + good[:len(good)-1],
	} {
		f.Add(s)
	}
	mustBe(f, p.guard, token)
	mustBe(f, p.guard, good)
	payload := strings.Split(good, ".")[1]
	f.Fuzz(func(t *testing.T, header string) {
		who, err := p.guard.Authenticate(Credentials{Authorization: []string{header}})
		switch {
		case err == nil && who.Name == "token:a":
			if !strings.HasSuffix(header, " "+token) {
				t.Errorf("%q: got the token's principal, want it refused", header)
			}
		case err == nil:
			if who.Name != "jwt:corp#alice" || !strings.Contains(header, payload) {
				t.Errorf("%q: got %s, want it refused", header, who.Name)
			}
		case !errors.Is(err, ErrInvalid) || who.Name != "":
			t.Errorf("%q: got %q, %v, want ErrInvalid", header, who.Name, err)
		default:
			for _, word := range strings.FieldsFunc(header, func(c rune) bool { return c == ' ' || c == '.' }) {
				if len(word) > 20 && strings.Contains(err.Error(), word) {
					t.Errorf("%q: got %v, want a reason without the credentials", header, err)
				}
			}
		}
	})
}
