package auth

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// countingTransport counts the responses that were opened and closed, and the requests without an Accept header for JSON.
type countingTransport struct {
	http.RoundTripper
	opened, closed, unclear atomic.Int64
	last                    atomic.Pointer[http.Request]
}

func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Accept") != "application/json" || req.Method != http.MethodGet {
		c.unclear.Add(1)
	}
	c.last.Store(req)
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		c.opened.Add(1)
		resp.Body = countingBody{resp.Body, c}
	}
	return resp, err
}

type countingBody struct {
	io.ReadCloser
	of *countingTransport
}

func (b countingBody) Close() error {
	b.of.closed.Add(1)
	return b.ReadCloser.Close()
}

// TestFetchKeys_ClosesEachResponse: the guard closes a response whether or not its content is
// usable.
func TestFetchKeys_ClosesEachResponse(t *testing.T) {
	e := newEC(t, "e")
	for name, answer := range map[string]func(http.ResponseWriter, string) bool{
		"good":    nil,
		"status":  func(w http.ResponseWriter, _ string) bool { w.WriteHeader(http.StatusBadGateway); return true },
		"no JSON": func(w http.ResponseWriter, _ string) bool { _, _ = w.Write([]byte("<html>")); return true },
		"long": func(w http.ResponseWriter, _ string) bool {
			_, _ = w.Write([]byte(strings.Repeat(" ", maxAnswer+1)))
			return true
		},
	} {
		p := newProvider(t, e.public())
		counts := &countingTransport{RoundTripper: p.guard.cfg.HTTP}
		p.guard.cfg.HTTP = counts
		p.set(func(p *provider) { p.answer = answer })
		p.fetch(t)
		if opened, closed := counts.opened.Load(), counts.closed.Load(); opened == 0 || closed < opened || counts.unclear.Load() != 0 {
			t.Errorf("%s: got %d responses opened, %d closed, %d requests that do not accept JSON; want all closed", name, opened, closed, counts.unclear.Load())
		}
		if counts.last.Load().Context().Err() == nil {
			t.Errorf("%s: the timer of the fetch still runs", name)
		}
	}
}

// TestFetchKeys_AcceptsTheLargestAnswer: each response may have maxAnswer bytes.
func TestFetchKeys_AcceptsTheLargestAnswer(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.set(func(p *provider) {
		p.answer = func(w http.ResponseWriter, path string) bool {
			text, err := json.Marshal(map[string]any{"keys": []any{e.public()}})
			if path == "/keys" && err == nil {
				_, err = w.Write(append(text, strings.Repeat(" ", maxAnswer-len(text))...))
			}
			if err != nil {
				t.Error(err)
			}
			return path == "/keys"
		}
	})
	if told := p.fetch(t); len(told) != 1 || told[0] != nil {
		t.Errorf("got %v told, want the keys", told)
	}
	p.mustHave(t, 1, 0)
}

// TestFetchKeys_FollowsRedirectsUpToTheLimit checks the maximum number of redirects within the
// issuer's host.
func TestFetchKeys_FollowsRedirectsUpToTheLimit(t *testing.T) {
	e := newEC(t, "e")
	for redirects, keys := range map[int]int{maxRedirect: 1, maxRedirect + 1: 0} {
		p := newProvider(t, e.public())
		p.set(func(p *provider) {
			p.answer = func(w http.ResponseWriter, path string) bool {
				again := path == "/keys" && p.requests() <= redirects
				if again {
					w.Header().Set("Location", "/keys")
					w.WriteHeader(http.StatusFound)
				}
				return again
			}
		})
		p.fetch(t)
		p.mustHave(t, keys, int64(1-keys))
	}
}

// TestFetchKeys_DatesKeysFromTheRequest: the age of keys counts from the request for them, and no
// second fetch starts during a long one.
func TestFetchKeys_DatesKeysFromTheRequest(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	begun := p.clock.Now()
	p.set(func(p *provider) {
		p.answer = func(_ http.ResponseWriter, path string) bool {
			if path == "/keys" {
				p.clock.add(2 * fetchEvery)
				p.guard.FetchKeys(t.Context())
			}
			return false
		}
	})
	p.fetch(t)
	if got := p.guard.Stats().Issuers[0].Fetched; !got.Equal(begun) || p.requests() != 1 {
		t.Errorf("got keys of %v after %d requests, want those of %v after one", got, p.requests(), begun)
	}
}

// TestFetchKeys_TellsOfFailureAndRecovery: Config.Keys receives each failure, and only the first
// success after it.
func TestFetchKeys_TellsOfFailureAndRecovery(t *testing.T) {
	e := newEC(t, "e")
	p := newProvider(t, e.public())
	p.fetch(t)
	var got []string
	for _, keys := range [][]any{nil, nil, {e.public()}, {e.public()}} {
		p.set(func(p *provider) { p.keys = keys })
		p.clock.add(fetchEvery)
		for _, err := range p.fetch(t) {
			got = append(got, fmt.Sprint(err == nil))
		}
	}
	if text := strings.Join(got, " "); text != "false false true" {
		t.Errorf("got successes %s told, want two failures and one success", text)
	}
	p.mustHave(t, 1, 2)
}

// TestOpen_AsksIssuersWithoutKeptConnections: the transport for issuers is a copy of the default
// transport with limits. The default transport itself does not change.
func TestOpen_AsksIssuersWithoutKeptConnections(t *testing.T) {
	got, ok := mustOpen(t, opens).cfg.HTTP.(*http.Transport)
	if !ok || !got.DisableKeepAlives || got.MaxResponseHeaderBytes != 64<<10 || got.Proxy == nil {
		t.Errorf("got %+v, want a transport without keep-alive, with bounded headers and the proxy of the environment", got)
	}
	if process := http.DefaultTransport.(*http.Transport); process == got || process.DisableKeepAlives {
		t.Error("got the transport of the process changed, want a copy")
	}
}

// TestFind_DistinguishesKeysOfOneKid: if several keys have the same kid, the algorithm selects one.
// A known kid with another algorithm causes no fetch.
func TestFind_DistinguishesKeysOfOneKid(t *testing.T) {
	e, d := newEC(t, "same"), newEd(t, "same")
	p := newProvider(t, e.public(), d.public())
	p.fetch(t)
	mustBe(t, p.guard, p.sign(t, e, nil, nil))
	mustBe(t, p.guard, p.sign(t, d, nil, nil))
	refused(t, p.guard, "no kid, and the issuer has several keys", "Bearer "+p.sign(t, e, members{"kid": nil}, nil))
	refused(t, p.guard, errUnknownKey.Error(), "Bearer "+p.sign(t, newRSA(t, "same", 2048), nil, nil))
	p.clock.add(2 * fetchSoon)
	if p.fetch(t); p.requests() != 1 {
		t.Errorf("got %d requests, want 1", p.requests())
	}
	refused(t, p.guard, errUnknownKey.Error(), "Bearer "+p.sign(t, newEC(t, "new"), nil, nil))
	if p.fetch(t); p.requests() != 2 {
		t.Errorf("after an unknown kid: got %d requests, want 2", p.requests())
	}
}

// TestVersion_ChangesWithThePolicy: a rejected or unchanged file does not change the version, and
// Stats describes the policy in use.
func TestVersion_ChangesWithThePolicy(t *testing.T) {
	clock := newClock()
	file := newFile(t, opens)
	g, err := Open(Config{File: string(file), Now: clock.Now})
	must(t, err)
	version, loaded := g.Version(), clock.Now()
	_, one := NewToken()
	_, two := NewToken()
	for _, c := range []struct {
		text    string
		changes bool
		tokens  int
		issuers int
	}{
		{opens, false, 0, 0},
		{opens + "tokens: [{name: a, sha256: " + one + "}, {name: b, sha256: " + two + ", expires: 2020-01-01T00:00:00Z}]\n", true, 2, 0},
		{"grants: []\n", false, 2, 0},
		{opens + "issuers: [{name: b, issuer: 'https://b.example', audience: m}, {name: a, issuer: 'https://a.example', audience: m}]\n", true, 0, 2},
	} {
		clock.add(time.Second)
		file.put(t, c.text)
		_ = g.Reload()
		if c.changes {
			loaded = clock.Now()
		}
		s := g.Stats()
		if (g.Version() != version) != c.changes || !s.Loaded.Equal(loaded) || s.Tokens != c.tokens || len(s.Issuers) != c.issuers {
			t.Errorf("%q: got version changed %t, %+v; want changed %t, loaded %v", c.text, g.Version() != version, s, c.changes, loaded)
		}
		version = g.Version()
	}
	if s := g.Stats(); s.Issuers[0].Name != "b" || s.Issuers[1].Name != "a" || s.Faults != 1 || s.Reloads != 2 || !s.FileOK {
		t.Errorf("got %+v, want the issuers in the order of the file, two reloads and one fault", s)
	}
}
