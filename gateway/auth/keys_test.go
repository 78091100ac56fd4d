package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/millrace-data/millrace/internal/watch"
)

// mustHave checks the number of the issuer's keys in use, and the number of failures.
func (p *provider) mustHave(t testing.TB, keys int, failures int64) {
	t.Helper()
	s := p.guard.Stats().Issuers
	if len(s) != 1 || s[0].Name != "corp" || s[0].Keys != keys || s[0].Failures != failures {
		t.Errorf("got %+v, want %d keys and %d failures", s, keys, failures)
	}
}

func TestKeysAreFetchedEachHour(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, nil))
	p.mustHave(t, 0, 0)
	if told := p.fetch(t); len(told) != 1 || told[0] != nil {
		t.Errorf("the first fetch: got %v told, want one nil", told)
	}
	p.mustHave(t, 1, 0)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Hour - 1, 1}, {1, 2}, {time.Minute, 2}, {time.Hour - time.Minute, 3}} {
		p.clock.add(c.after)
		if told := p.fetch(t); told != nil {
			t.Errorf("a fetch as the one before: got %v told, want nothing", told)
		}
		if got := p.requests(); got != c.want {
			t.Errorf("after another %v: got %d requests, want %d", c.after, got, c.want)
		}
	}
	if got := p.guard.Stats().Issuers[0].Fetched; !got.Equal(p.clock.Now()) {
		t.Errorf("Fetched: got %v, want %v", got, p.clock.Now())
	}
}

func TestAnIssuerThatIsDown(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	down := func(w http.ResponseWriter, _ string) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	p.set(func(p *provider) { p.answer = down })
	jwt := p.sign(t, e, nil, members{"exp": p.clock.Now().Add(100 * time.Hour).Unix()})
	for i := range 3 {
		if told := p.fetch(t); len(told) != 1 || told[0] == nil || !strings.Contains(told[0].Error(), "503") {
			t.Errorf("fetch %d: got %v told, want the status", i, told)
		}
		if told := p.fetch(t); told != nil {
			t.Errorf("at once again: got %v told, want no fetch", told)
		}
		p.clock.add(10 * time.Second)
	}
	_, err := p.guard.Authenticate(Credentials{Authorization: []string{"Bearer " + jwt}})
	if !errors.Is(err, ErrNoKeys) || !errors.Is(err, ErrInvalid) {
		t.Errorf("without keys: got %v, want ErrNoKeys", err)
	}
	p.mustHave(t, 0, 3)
	p.set(func(p *provider) { p.answer = nil })
	if told := p.fetch(t); len(told) != 1 || told[0] != nil {
		t.Errorf("up again: got %v told, want one nil", told)
	}
	mustBe(t, p.guard, jwt)

	p.set(func(p *provider) { p.answer = down })
	p.clock.add(time.Hour)
	p.fetch(t)
	p.clock.add(23*time.Hour - 1)
	p.fetch(t)
	mustBe(t, p.guard, jwt)
	p.mustHave(t, 1, 5)
	p.clock.add(1)
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+jwt)
	p.mustHave(t, 0, 5)
	p.set(func(p *provider) { p.answer = nil })
	p.clock.add(time.Minute)
	if told := p.fetch(t); len(told) != 1 || told[0] != nil {
		t.Errorf("up after a day: got %v told, want one nil", told)
	}
	mustBe(t, p.guard, jwt)
}

func TestRotatedKeys(t *testing.T) {
	first, second := newEC(t, "first"), newEC(t, "second")
	p := newProvider(t, first.public())
	p.fetch(t)
	p.set(func(p *provider) { p.keys = []any{second.public()} })
	p.clock.add(30 * time.Second)
	old, rotated := p.sign(t, first, nil, nil), p.sign(t, second, nil, nil)
	mustBe(t, p.guard, old)
	for range 100 {
		refused(t, p.guard, "no key of the issuer", "Bearer "+rotated)
		p.fetch(t)
	}
	if got := p.requests(); got != 1 {
		t.Errorf("within a minute: got %d requests, want 1", got)
	}
	p.clock.add(30 * time.Second)
	p.fetch(t)
	mustBe(t, p.guard, rotated)
	refused(t, p.guard, "no key of the issuer", "Bearer "+old)
	if got := p.requests(); got != 2 {
		t.Errorf("a minute later: got %d requests, want 2", got)
	}
	p.clock.add(time.Minute)
	p.fetch(t) // the unknown old kid made a fetch due
	p.clock.add(time.Minute)
	p.fetch(t) // no fetch is due
	if got := p.requests(); got != 3 {
		t.Errorf("two minutes later: got %d requests, want 3", got)
	}
}

// TestAKnownKidAsksForNothing: a wrong signature causes no request to the issuer.
func TestAKnownKidAsksForNothing(t *testing.T) {
	e, mallory := newEC(t, "e"), newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	p.clock.add(30 * time.Minute)
	refused(t, p.guard, "signature is wrong", "Bearer "+p.sign(t, mallory, nil, nil))
	refused(t, p.guard, "no key of the issuer", "Bearer "+p.sign(t, e, members{"alg": "EdDSA"}, nil))
	refused(t, p.guard, "an issuer that", "Bearer "+p.sign(t, signer{"x", e.key}, nil, members{"iss": "https://x.example"}))
	if p.fetch(t); p.requests() != 1 {
		t.Errorf("requests: got %d, want 1", p.requests())
	}
}

func TestAnswersOfAnIssuerThatAreRefused(t *testing.T) {
	e := newEC(t, "e")
	const about, keys = "/.well-known/openid-configuration", "/keys"
	other := newProvider(t, e.public())
	says := func(path, text string) func(*provider) {
		return func(p *provider) {
			p.answer = func(w http.ResponseWriter, asked string) bool {
				if asked == path {
					_, _ = w.Write([]byte(text))
				}
				return asked == path
			}
		}
	}
	leads := func(path, to string) func(*provider) {
		return func(p *provider) {
			p.answer = func(w http.ResponseWriter, asked string) bool {
				if asked == path {
					w.Header().Set("Location", to)
					w.WriteHeader(http.StatusFound)
				}
				return asked == path
			}
		}
	}
	weak := newRSA(t, "weak", 1024).public()
	for name, c := range map[string]struct {
		spoil func(*provider)
		want  string
	}{
		"another issuer":          {func(p *provider) { p.issuer += "/" }, "belongs to issuer"},
		"no issuer":               {func(p *provider) { p.issuer = "" }, "belongs to issuer"},
		"no JSON":                 {says(about, "<html>"), "invalid character"},
		"nothing":                 {says(about, ""), "unexpected end"},
		"no jwks_uri":             {func(p *provider) { says(about, `{"issuer":"`+p.URL+`"}`)(p) }, "jwks_uri must be an https URL"},
		"keys by http":            {func(p *provider) { says(about, `{"issuer":"`+p.URL+`","jwks_uri":"http://a.example/k"}`)(p) }, "jwks_uri must be an https URL"},
		"keys in a file":          {func(p *provider) { says(about, `{"issuer":"`+p.URL+`","jwks_uri":"file:///etc/passwd"}`)(p) }, "jwks_uri must be an https URL"},
		"1 MiB and a byte":        {says(keys, `{"keys":[]}`+strings.Repeat(" ", maxAnswer-10)), "more than 1048576 bytes"},
		"a list":                  {says(keys, `[]`), "cannot unmarshal"},
		"no keys":                 {func(p *provider) { p.keys = nil }, "none of 0 keys"},
		"keys that are too short": {func(p *provider) { p.keys = []any{weak} }, "none of 1 keys is for RS256 (2048 to 4096 bits)"},
		"keys of other kinds": {func(p *provider) {
			p.keys = []any{members{"kty": "new", "kid": "e"}, members{"kid": "e"}, "text", jose.JSONWebKey{Key: []byte("secret"), KeyID: "oct"}}
		}, "none of 4 keys"},
		"a redirect elsewhere": {leads(about, other.URL+about), "redirects to another host"},
		"a redirect to http":   {func(p *provider) { leads(keys, strings.Replace(p.URL, "https", "http", 1)+"/other")(p) }, "redirects to another host"},
		"a redirect in a loop": {leads(keys, keys), "or too often"},
		"a missing page": {func(p *provider) {
			p.answer = func(w http.ResponseWriter, _ string) bool { w.WriteHeader(404); return true }
		}, "404"},
		"a body that ends early": {func(p *provider) {
			p.answer = func(w http.ResponseWriter, _ string) bool {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("{"))
				return true
			}
		}, "unexpected EOF"},
		"keys that are no JSON": {says(keys, `{"keys":[{]}`), "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, e.public())
			p.set(c.spoil)
			if told := p.fetch(t); len(told) != 1 || told[0] == nil || !strings.Contains(told[0].Error(), c.want) {
				t.Fatalf("got %v told, want %q", told, c.want)
			}
			p.mustHave(t, 0, 1)
		})
	}
	if other.requests() != 0 {
		t.Errorf("requests to where a redirect led: got %d, want 0", other.requests())
	}
}

func TestARedirectWithinAnIssuerIsFollowed(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.set(func(p *provider) {
		p.answer = func(w http.ResponseWriter, path string) bool {
			if path == "/keys" && p.requests() == 1 {
				w.Header().Set("Location", "/keys")
				w.WriteHeader(http.StatusFound)
				return true
			}
			return false
		}
	})
	p.fetch(t)
	p.mustHave(t, 1, 0)
}

// TestAFailureKeepsTheKeys: the guard keeps the previous keys when the issuer publishes unusable
// ones.
func TestAFailureKeepsTheKeys(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	p.set(func(p *provider) { p.keys = nil })
	p.clock.add(time.Hour)
	if told := p.fetch(t); len(told) != 1 || told[0] == nil {
		t.Errorf("no keys: got %v told, want a failure", told)
	}
	mustBe(t, p.guard, p.sign(t, e, nil, nil))
}

func TestAReloadKeepsTheKeysOfAnIssuer(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	p.file.put(t, p.access("audience: other"))
	if err := p.guard.Reload(); err == nil {
		t.Fatal("a group of an issuer without groups: got no fault")
	}
	p.file.put(t, p.access("audience: other, groups: g"))
	must(t, p.guard.Reload())
	refused(t, p.guard, "audience", "Bearer "+p.sign(t, e, nil, nil))
	mustBe(t, p.guard, p.sign(t, e, nil, members{"aud": "other"}))
	p.file.put(t, opens)
	must(t, p.guard.Reload())
	refused(t, p.guard, "of an issuer that is not in the access file", "Bearer "+p.sign(t, e, nil, nil))
	p.file.put(t, p.access("audience: other, groups: g"))
	must(t, p.guard.Reload())
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, nil))
}

// TestFetchKeys_CanceledAtEachStep: a fetch whose context ends counts as failed and is not
// reported. The next fetch is due at the same time as after any failure.
func TestFetchKeys_CanceledAtEachStep(t *testing.T) {
	for _, step := range []string{"/.well-known/openid-configuration", "/keys"} {
		e := newEC(t, "e")
		p := newProvider(t, e.public())
		for i, soon := range []time.Duration{fetchFirst, fetchSoon} { // without keys, and with keys
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			p.set(func(p *provider) {
				p.answer = func(_ http.ResponseWriter, path string) bool {
					if path == step {
						cancel()
						<-left
					}
					return false
				}
			})
			p.guard.FetchKeys(ctx)
			close(left)
			p.set(func(p *provider) { p.answer = nil })
			p.mustHave(t, i, int64(i+1))
			if told := p.fetch(t); told != nil {
				t.Errorf("%s: got %v told, want nothing", step, told)
			}
			p.clock.add(soon)
			if told := p.fetch(t); len(told) != 1 || told[0] != nil {
				t.Errorf("%s: the next fetch: got %v told, want one nil", step, told)
			}
			mustBe(t, p.guard, p.sign(t, e, nil, nil))
			p.clock.add(fetchEvery)
		}
	}
}

// TestReload_KeysBelongToTheURL: an issuer that is renamed keeps its keys. An issuer whose URL
// changes does not.
func TestReload_KeysBelongToTheURL(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	const other = "https://other.example"
	fields := "audience: millrace, groups: groups"
	p.file.put(t, strings.ReplaceAll(p.access(fields), "corp", "works"))
	must(t, p.guard.Reload())
	if who := mustBe(t, p.guard, p.sign(t, e, nil, nil)); who.Name != "jwt:works#alice" {
		t.Errorf("got %s, want the new name of the issuer", who.Name)
	}
	p.file.put(t, strings.ReplaceAll(p.access(fields), p.URL, other))
	must(t, p.guard.Reload())
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, members{"iss": other}))
	refused(t, p.guard, "of an issuer that is not in the access file", "Bearer "+p.sign(t, e, nil, nil))
	two := strings.Replace(p.access(fields), "issuers: [", `issuers: [{name: new, issuer: "`+other+`", audience: millrace}, `, 1)
	p.file.put(t, two)
	must(t, p.guard.Reload())
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, members{"iss": other}))
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, nil)) // the reload without this URL dropped its keys
}

// TestARequestDoesNotWaitForAnIssuer: the guard decides about a request while the issuer's response
// is delayed.
func TestARequestDoesNotWaitForAnIssuer(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	asked, answer := make(chan struct{}), make(chan struct{})
	p.set(func(p *provider) {
		p.answer = func(_ http.ResponseWriter, path string) bool {
			if path == "/keys" {
				close(asked)
				<-answer
			}
			return false
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	fetched := make(chan error)
	p.guard.cfg.Keys = func(_ string, err error) { fetched <- err }
	ended := make(chan error)
	go func() { ended <- p.guard.Run(ctx) }()
	<-asked
	refused(t, p.guard, ErrNoKeys.Error(), "Bearer "+p.sign(t, e, nil, nil))
	close(answer)
	if err := <-fetched; err != nil {
		t.Errorf("got %v, want the keys", err)
	}
	mustBe(t, p.guard, p.sign(t, e, nil, nil))
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

// TestAnIssuerThatSaysNothing: a fetch from an issuer that never responds ends after 10 s.
// Meanwhile the guard reloads the file.
func TestAnIssuerThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var far []net.Conn
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, silent := net.Pipe()
			far = append(far, silent)
			return near, nil
		}}
		file := newFile(t, `
issuers: [{name: corp, issuer: "https://id.example", audience: millrace}]
grants: [{who: [anonymous], datasets: [open], rights: [read]}]`)
		type told struct {
			after time.Duration
			err   error
		}
		begun, said := time.Now(), make(chan told, 9)
		g, err := Open(Config{File: string(file), HTTP: transport, Keys: func(_ string, err error) { said <- told{time.Since(begun), err} }})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		time.Sleep(2 * time.Second)
		file.put(t, closes)
		time.Sleep(watch.LookEvery + watch.Settle)
		synctest.Wait()
		if !g.May(Anonymous(), Read, "other") {
			t.Error("while an issuer is asked: got the old file, want the new one")
		}
		if got := <-said; got.after != fetchLasts || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("got %v after %v, want a deadline after %v", got.err, got.after, fetchLasts)
		}
		stop()
		<-ended
		for _, c := range far {
			c.Close()
		}
		transport.CloseIdleConnections()
	})
}
