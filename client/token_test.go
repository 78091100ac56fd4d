package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// guardedGateway is a fake behind TLS that requires a token.
type guardedGateway struct {
	fake
	*httptest.Server

	mu     sync.Mutex
	valid  map[string]bool
	tokens []string // Authorization of each request except probes, in order of arrival
	probes []string // Authorization of each probe
}

func serveGuarded(t *testing.T, batches uint64, valid ...string) *guardedGateway {
	t.Helper()
	leaks.Check(t)
	g := &guardedGateway{fake: fake{batches: batches, generation: "g"}}
	g.admit(valid...)
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.knows(r) {
			refuse(w, http.StatusUnauthorized, map[string]any{"code": "unauthenticated", "detail": "the token is not valid"})
			return
		}
		g.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// admit replaces the tokens that the gateway accepts.
func (g *guardedGateway) admit(tokens ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.valid = map[string]bool{}
	for _, token := range tokens {
		g.valid["Bearer "+token] = true
	}
}

func (g *guardedGateway) knows(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	shown := r.Header.Get("Authorization")
	if r.URL.Path == "/readyz" {
		g.probes = append(g.probes, shown)
		return true
	}
	g.tokens = append(g.tokens, shown)
	return g.valid[shown]
}

func (g *guardedGateway) asked() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.ReplaceAll(strings.Join(g.tokens, ","), "Bearer ", "")
}

// trusting returns a client configuration that trusts the certificates of test servers.
func trusting(gateways ...*guardedGateway) client.Config {
	cfg := client.Config{TLS: &tls.Config{RootCAs: x509.NewCertPool()}}
	for _, g := range gateways {
		cfg.TLS.RootCAs.AddCert(g.Certificate())
		cfg.Gateways = append(cfg.Gateways, g.URL)
	}
	return cfg
}

func writeToken(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokenGoesWithEachRequest(t *testing.T) {
	file := writeToken(t, filepath.Join(t.TempDir(), "token"), "canary-a\r\n")
	for name, set := range map[string]func(cfg *client.Config){
		"Token":               func(cfg *client.Config) { cfg.Token = "canary-a" },
		"TokenFile":           func(cfg *client.Config) { cfg.TokenFile = file },
		"MILLRACE_TOKEN":      func(*client.Config) { t.Setenv("MILLRACE_TOKEN", "canary-a") },
		"MILLRACE_TOKEN_FILE": func(*client.Config) { t.Setenv("MILLRACE_TOKEN_FILE", file) },
	} {
		g, other := serveGuarded(t, 2, "canary-a"), serveGuarded(t, 2, "canary-a")
		cfg := trusting(g, other)
		set(&cfg)
		c := newClient(t, cfg)
		os.Unsetenv("MILLRACE_TOKEN")
		os.Unsetenv("MILLRACE_TOKEN_FILE")
		if got := numbers(t, c, client.Options{Manifest: true}); len(got) != 2 {
			t.Errorf("%s: got batches %v, want 2", name, got)
		}
		if shown := fmt.Sprintf("%v %+v %#v", c, c, *c); strings.Contains(shown, "canary") {
			t.Errorf("%s: the client shows its token: %s", name, shown)
		}
		for _, probe := range append(g.probes, other.probes...) {
			if probe != "" {
				t.Errorf("%s: a probe shows %q, which /readyz does not ask for", name, probe)
			}
		}
		if len(g.probes)+len(other.probes) == 0 {
			t.Errorf("%s: got no probe, want the gateways measured", name)
		}
	}
}

// TestTokenIsReadAgainWhenItIsRefused: a job continues when its token is replaced in the file.
func TestTokenIsReadAgainWhenItIsRefused(t *testing.T) {
	file := writeToken(t, filepath.Join(t.TempDir(), "token"), "canary-a\n")
	g := serveGuarded(t, 3, "canary-a")
	cfg := trusting(g)
	cfg.TokenFile = file
	c := newClient(t, cfg)
	read := func(number uint64) error {
		_, err := c.Batch(t.Context(), client.Options{}, number)
		return err
	}
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	writeToken(t, file, "canary-b\n")
	if err := read(0); err != nil { // the old token is still valid: the file is not read again
		t.Fatal(err)
	}
	g.admit("canary-b")
	if err := read(1); err != nil {
		t.Errorf("got %v, want the batch by the new token", err)
	}
	var sent []string
	g.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		_, _ = w.Write([]byte("{}"))
		return true
	}
	g.admit("canary-c")
	writeToken(t, file, "canary-c")
	var answer struct{}
	if err := c.Post(t.Context(), "/v1/datasets/photos/warm", nil, map[string]int{"a": 1}, &answer); err != nil || fmt.Sprint(sent) != `[{"a":1}]` {
		t.Errorf("got %v, and %q of what was posted", err, sent)
	}
	if got, want := g.asked(), "canary-a,canary-a,canary-a,canary-b,canary-b,canary-c"; got != want {
		t.Errorf("got requests with %s, want %s", got, want)
	}
}

// TestRefusedTokenIsAnErrorAtOnce: the client does not retry a refused token, which would only
// delay the error.
func TestRefusedTokenIsAnErrorAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := writeToken(t, filepath.Join(dir, "token"), "canary-old")
	for name, breakFile := range map[string]func() string{
		"the same token": func() string { return "set a token that the gateway accepts" },
		"another wrong token": func() string {
			writeToken(t, file, "canary-other")
			return "the token is not valid"
		},
		"no file":  func() string { _ = os.Remove(file); return file + ": no such file" },
		"an empty": func() string { writeToken(t, file, ""); return "token file " + file + ": the token is empty" },
	} {
		writeToken(t, file, "canary-old")
		g := serveGuarded(t, 1, "canary-new")
		cfg := trusting(g)
		cfg.TokenFile = file
		c := newClient(t, cfg)
		want := breakFile()
		_, err := c.Batch(t.Context(), client.Options{}, 0)
		if !errors.Is(err, &client.Error{Code: client.CodeUnauthenticated}) || !strings.Contains(err.Error(), want) || strings.Contains(fmt.Sprintf("%+v", err), "canary") {
			t.Errorf("%s: got %v, want unauthenticated with %q and no token", name, err, want)
		}
		if n := strings.Count(g.asked(), "canary"); n != 1 && (name != "another wrong token" || n != 2) {
			t.Errorf("%s: got %d requests (%s), want no more than there are tokens", name, n, g.asked())
		}
	}
}

// TestGatewayThatDoesNotKnowANewTokenYet: the client tries another gateway, because access files do
// not change on all gateways at once.
func TestGatewayThatDoesNotKnowANewTokenYet(t *testing.T) {
	late, early := serveGuarded(t, 3, "canary-a"), serveGuarded(t, 3, "canary-a", "canary-b")
	cfg := trusting(late, early)
	cfg.Token, cfg.Home = "canary-b", func(uint64, uint64, int) int { return 0 }
	if got := numbers(t, newClient(t, cfg), client.Options{}); len(got) != 3 || late.asked() == "" {
		t.Errorf("got batches %v and %q from the first gateway, want 3 batches after its refusal", got, late.asked())
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	long := writeToken(t, filepath.Join(dir, "long"), strings.Repeat("canary", 20_000))
	two := writeToken(t, filepath.Join(dir, "two"), "canary-1\ncanary-2\n")
	for name, c := range map[string]struct {
		cfg  client.Config
		env  []string
		want string
	}{
		"both in code":         {client.Config{Token: "canary", TokenFile: two}, nil, "Token and TokenFile are both set"},
		"both in environment":  {client.Config{}, []string{"MILLRACE_TOKEN=canary", "MILLRACE_TOKEN_FILE=" + two}, "MILLRACE_TOKEN and MILLRACE_TOKEN_FILE are both set"},
		"an empty variable":    {client.Config{}, []string{"MILLRACE_TOKEN="}, "MILLRACE_TOKEN: the token is empty"},
		"no name of a file":    {client.Config{}, []string{"MILLRACE_TOKEN_FILE="}, "MILLRACE_TOKEN_FILE is set but empty"},
		"no file":              {client.Config{TokenFile: dir + "/none"}, nil, dir + "/none: no such file"},
		"a directory":          {client.Config{TokenFile: dir}, nil, dir + ": is a directory"},
		"two lines":            {client.Config{TokenFile: two}, nil, "token file " + two + ": a token must be one line"},
		"a long file":          {client.Config{TokenFile: long}, nil, "token file " + long + ": a token must have at most 65536 bytes"},
		"a control character":  {client.Config{Token: "canary\x07"}, nil, "Token: a token must be one line of visible ASCII"},
		"a space":              {client.Config{Token: "Bearer canary"}, nil, "without spaces"},
		"another alphabet":     {client.Config{Token: "canary€"}, nil, "ASCII"},
		"an odd permission":    {client.Config{}, []string{"MILLRACE_INSECURE_PLAIN_HTTP=perhaps", "MILLRACE_TOKEN=canary"}, `MILLRACE_INSECURE_PLAIN_HTTP "perhaps": want true or false`},
		"code goes before env": {client.Config{Token: "canary"}, []string{"MILLRACE_TOKEN_FILE=" + two}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kv := range c.env {
				k, v, _ := strings.Cut(kv, "=")
				t.Setenv(k, v)
			}
			c.cfg.Gateways = []string{"https://gw"}
			_, err := client.New(c.cfg)
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || strings.Contains(got, "canary") {
				t.Errorf("got %v, want %q and no token", err, c.want)
			}
		})
	}
}

func TestTokensStayOffPlainNetworks(t *testing.T) {
	for gateway, safe := range map[string]bool{
		"https://gw": true, "http://localhost:80": true, "http://127.1.2.3": true, "http://[::1]:8080": true, "localhost:8080": true,
		"http://gw": false, "gw:8080": false, "dns:gw:80": false, "http://10.0.0.1": false, "http://localhost.example": false, "http://[fe80::1]": false,
	} {
		cfg := client.Config{Gateways: []string{"https://other", gateway}, Token: "canary"}
		_, err := client.New(cfg)
		if safe != (err == nil) || err != nil && !strings.Contains(err.Error(), "MILLRACE_INSECURE_PLAIN_HTTP=true") {
			t.Errorf("%s: got %v, want safe %v", gateway, err, safe)
		}
		cfg.InsecurePlainHTTP = true
		if _, err := client.New(cfg); err != nil {
			t.Errorf("%s, allowed by Config: %v", gateway, err)
		}
		cfg.InsecurePlainHTTP = false
		t.Setenv("MILLRACE_INSECURE_PLAIN_HTTP", "true")
		if _, err := client.New(cfg); err != nil {
			t.Errorf("%s, allowed by the environment: %v", gateway, err)
		}
		os.Unsetenv("MILLRACE_INSECURE_PLAIN_HTTP")
		if _, err := client.New(client.Config{Gateways: []string{gateway}}); err != nil {
			t.Errorf("%s, without a token: %v", gateway, err)
		}
	}
}

// TestAddressesHoldNoSecrets: the client refuses addresses with secrets, because addresses appear
// in logs and process lists.
func TestAddressesHoldNoSecrets(t *testing.T) {
	token := "mr_canary" + strings.Repeat("x", 37)
	for _, g := range []string{
		"http://u:canary@x", "https://canary@x:80/p", "u:canary@x:80", "http://x/" + token, "https://" + token + ":80", "http://x?token=canary", "http://x#canary",
		"http://x?" + token, "ftp://u:canary@x", "http://u:can/ary@x", "http://u:canary@x:y", "dns:u:canary@x:80", "ftp://x/canary",
	} {
		_, err := client.New(client.Config{Gateways: []string{g}})
		if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "ary@") {
			t.Errorf("%q: got %v, want an error that repeats no secret", g, err)
		}
	}
}

// TestTokenFollowsNoRedirect: the client sends no token to the target of a redirect, which may be
// any host.
func TestTokenFollowsNoRedirect(t *testing.T) {
	var told []string
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told = append(told, r.Header.Get("Authorization")) }))
	defer thief.Close()
	for _, to := range []string{thief.URL, strings.Replace(thief.URL, "127.0.0.1", "localhost", 1)} {
		g := serveGuarded(t, 1, "canary")
		g.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, to+"/epoch/0/batch/0", http.StatusTemporaryRedirect)
			return true
		}
		h := g.Client()
		h.CheckRedirect = func(*http.Request, []*http.Request) error { return nil }
		cfg := client.Config{Gateways: []string{g.URL}, Token: "canary", HTTP: h}
		var e *client.Error
		if _, err := newClient(t, cfg).Batch(t.Context(), client.Options{}, 0); !errors.As(err, &e) || e.Status != http.StatusTemporaryRedirect {
			t.Errorf("got %v, want the redirect as an error", err)
		}
	}
	if len(told) != 0 {
		t.Errorf("the redirect's target was asked with %q", told)
	}
}

// TestGatewaysMustProveTheirNames: the client never sends a token to a server whose certificate has
// another name or an unknown authority.
func TestGatewaysMustProveTheirNames(t *testing.T) {
	g := serveGuarded(t, 1, "canary")
	for name, cfg := range map[string]client.Config{
		"an unknown authority": {Gateways: []string{g.URL}},
		"another name":         {Gateways: []string{strings.Replace(g.URL, "127.0.0.1", "localhost", 1)}, TLS: trusting(g).TLS},
	} {
		cfg.Token = "canary"
		_, err := newClient(t, cfg).Batch(t.Context(), client.Options{}, 0)
		var untrusted *tls.CertificateVerificationError
		if !errors.Is(err, client.ErrProtocol) || !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
			t.Errorf("%s: got %v, want the certificate refused, before the deadline", name, err)
		}
	}
	if g.asked() != "" {
		t.Errorf("the gateway was shown %s", g.asked())
	}
	if _, err := client.New(client.Config{Gateways: []string{g.URL}, TLS: &tls.Config{}, HTTP: g.Client()}); err == nil {
		t.Error("TLS beside HTTP: got no error, want one, since it would have no effect")
	}
}

// TestConnectionsOverTLSAreResumed: new connections resume TLS sessions. A full handshake with
// signatures costs more than a batch.
func TestConnectionsOverTLSAreResumed(t *testing.T) {
	g := serveGuarded(t, 1)
	var mu sync.Mutex
	var resumed []bool
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		resumed = append(resumed, r.TLS.DidResume)
		w.Header().Set("Connection", "close")
		g.ServeHTTP(w, r)
	})
	c := newClient(t, trusting(g))
	for range 2 {
		if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(resumed) != "[false true]" {
		t.Errorf("got sessions resumed %v, want the second one", resumed)
	}
}

// TestRefusalsHaveCures: the error contains a remedy for the caller.
func TestRefusalsHaveCures(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		cure   string
	}{
		{http.StatusUnauthorized, client.CodeUnauthenticated, "MILLRACE_TOKEN_FILE"},
		{http.StatusForbidden, client.CodeForbidden, "access file"},
		{http.StatusForbidden, client.CodeReadOnly, ""},
		{http.StatusNotFound, client.CodeNotFound, ""},
		{http.StatusMisdirectedRequest, client.CodeMisdirected, "--host"},
	} {
		f := &fake{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, c.status, map[string]any{"code": c.code, "detail": "what is wrong"})
			return true
		}}
		_, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{}, 0)
		var e *client.Error
		if !errors.As(err, &e) || !errors.Is(err, &client.Error{Code: c.code}) || !strings.Contains(err.Error(), c.cure) || c.cure == "" && e.Cure() != "" {
			t.Errorf("%d %s: got %v, want its code and %q", c.status, c.code, err, c.cure)
		}
		if n := len(f.seen()); n != 1 {
			t.Errorf("%d %s: got %d requests, want 1", c.status, c.code, n)
		}
	}
}

// TestTooManyRequestsWaitAsLongAsTheyAreTold: after a 429 the client waits for the Retry-After, and
// then retries.
func TestTooManyRequestsWaitAsLongAsTheyAreTold(t *testing.T) {
	var refused time.Time
	f := &fake{batches: 1, generation: "g", fault: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 0 {
			refused = time.Now()
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, map[string]any{"code": "too_many_requests", "retryable": true})
		}
		return n == 0
	}}
	if got := numbers(t, newClient(t, client.Config{Gateways: []string{serve(t, f)}}), client.Options{}); len(got) != 1 || time.Since(refused) < time.Second {
		t.Errorf("got %v after %s, want the batch after 1 s", got, time.Since(refused))
	}
}
