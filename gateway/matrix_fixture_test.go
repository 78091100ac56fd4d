package gateway_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// caller is a caller of the matrix with its rights in the access file. The rights are written by
// hand, not read from the file.
type caller struct {
	name        string
	headers     []string // values of Authorization
	certificate *x509.Certificate
	invalid     bool                // its credentials are invalid
	rights      map[string][]string // by dataset; "*": any
	admin       bool
	mixtures    []string // mixtures whose sources it may read because of grants_sources
}

func (c caller) anonymous() bool { return len(c.headers) == 0 && c.certificate == nil }

// has reports whether a grant names the right and the dataset. All callers have the rights of
// anonymous ones.
func (c caller) has(right, dataset string) bool {
	return dataset == "open" && right == "read" || slices.Contains(c.rights[dataset], right) || slices.Contains(c.rights["*"], right)
}

// sources has the sources of the matrix's mixtures.
var sources = map[string][]string{"mix": {"photos", "scans"}, "blend": {"photos", "scans"}}

// may reports whether the caller has the right. Unlike has, it requires read on the sources of a
// mixture.
func (c caller) may(right, dataset string) bool {
	if !c.has(right, dataset) {
		return false
	}
	if slices.Contains(c.mixtures, dataset) {
		return true
	}
	return !slices.ContainsFunc(sources[dataset], func(s string) bool { return !c.has("read", s) })
}

// matrix is a gateway with an access file, and its callers.
type matrix struct {
	*rig
	guard   *auth.Guard
	file    string
	text    string // text of the file
	callers []caller
	secrets []string // texts that no response may contain
	lost    map[string]string
}

// twins has for each dataset a name that no dataset has, with the same length and matched by the
// same grants.
var twins = map[string]string{"photos": "photoz", "scans": "scanz", "mix": "mit", "blend": "blent"}

func newMatrix(t *testing.T, edit func(*gateway.Config)) *matrix {
	t.Helper()
	m := &matrix{file: filepath.Join(t.TempDir(), "access.yaml"), lost: map[string]string{}}
	token := func(name string) string {
		text, sum := auth.NewToken()
		m.text += fmt.Sprintf("  - {name: %s, sha256: %s}\n", name, sum)
		m.secrets = append(m.secrets, text)
		return text
	}
	add := func(c caller, text string) {
		c.headers = []string{"Bearer " + text}
		m.callers = append(m.callers, c)
	}
	m.callers = append(m.callers, caller{name: "nobody"})
	m.text = "tokens:\n"
	for _, c := range []caller{
		{name: "reader", rights: map[string][]string{"photos": {"read"}}},
		{name: "reporter", rights: map[string][]string{"photos": {"report"}}},
		{name: "warmer", rights: map[string][]string{"photos": {"warm"}}},
		{name: "star", rights: map[string][]string{"*": {"read"}}},
		{name: "pattern", rights: map[string][]string{"scans": {"read"}, "scanz": {"read"}}},
		{name: "nothing"},
		{name: "boss", admin: true},
		{name: "all", rights: map[string][]string{"*": {"read", "report", "warm"}}, admin: true},
		{name: "mixer", rights: map[string][]string{"mix": {"read", "report", "warm"}, "mit": {"read", "report", "warm"}, "photos": {"read"}}},
		{name: "granted", rights: map[string][]string{"blend": {"read"}}, mixtures: []string{"blend"}},
	} {
		add(c, token(c.name))
	}
	trainer := token("cut")
	unknown, _ := auth.NewToken()
	m.secrets = append(m.secrets, unknown)
	late, sum := auth.NewToken()
	m.text += fmt.Sprintf("  - {name: late, sha256: %s, expires: 2020-01-01T00:00:00Z}\n", sum)
	m.secrets = append(m.secrets, late)
	add(caller{name: "unknown token", invalid: true}, unknown)
	add(caller{name: "expired token", invalid: true}, late)
	add(caller{name: "truncated token", invalid: true}, trainer[:len(trainer)-1])
	add(caller{name: "long token", invalid: true}, strings.Repeat(trainer, 300))
	m.callers = append(m.callers,
		caller{name: "two headers", headers: []string{"Bearer " + trainer, "Bearer " + trainer}, invalid: true},
		caller{name: "basic", headers: []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("cut:"+trainer))}, invalid: true},
		caller{name: "bare token", headers: []string{trainer}, invalid: true},
		caller{
			name: "certificate", certificate: &x509.Certificate{DNSNames: []string{"ops.example"}, NotAfter: time.Now().Add(time.Hour)},
			admin: true, rights: map[string][]string{"photos": {"read"}},
		},
		caller{name: "old certificate", certificate: &x509.Certificate{DNSNames: []string{"ops.example"}, NotAfter: time.Now().Add(-time.Hour)}, invalid: true})
	id := newIssuer(t)
	add(caller{name: "jwt", rights: map[string][]string{"scans": {"read"}}}, id.sign("alice", time.Hour))
	add(caller{name: "jwt of nobody"}, id.sign("bob", time.Hour))
	add(caller{name: "expired jwt", invalid: true}, id.sign("alice", -time.Hour))
	for _, c := range m.callers[len(m.callers)-3:] {
		m.secrets = append(m.secrets, strings.TrimPrefix(c.headers[0], "Bearer "))
	}
	m.text += `issuers:
  - {name: corp, issuer: "` + id.URL + `", audience: millrace}
grants:
  - {who: [anonymous], datasets: [open], rights: [read]}
  - {who: ["token:reader", "token:mixer", "certificate:ops.example", "token:cut"], datasets: [photos], rights: [read]}
  - {who: ["token:reporter"], datasets: [photos], rights: [report]}
  - {who: ["token:warmer"], datasets: [photos], rights: [warm]}
  - {who: ["token:star"], datasets: ["*"], rights: [read]}
  - {who: ["token:pattern"], datasets: ["sc*"], rights: [read]}
  - {who: ["jwt:corp#alice"], datasets: [scans], rights: [read]}
  - {who: ["token:mixer"], datasets: ["mi*"], rights: [read, report, warm]}
  - {who: ["token:granted"], datasets: [blend], rights: [read], grants_sources: true}
  - {who: ["token:boss", "token:all", "certificate:ops.example"], rights: [admin]}
  - {who: ["token:all"], datasets: ["*"], rights: [read, report, warm]}
`
	m.put(t, m.text)
	var err error
	if m.guard, err = auth.Open(auth.Config{File: m.file, HTTP: id.Client().Transport}); err != nil {
		t.Fatal(err)
	}
	id.fetched(t, m.guard)
	m.rig = newRig(t, 50, 800, func(cfg *gateway.Config) {
		photos := cfg.Datasets[0]
		for _, name := range []string{"scans", "open"} {
			own := memstore.New() // for losses
			d := photos
			d.Name, d.Importance = name, m.lossesOf(t, importance.Config{Reader: own, Writer: own})
			cfg.Datasets = append(cfg.Datasets, d)
		}
		for _, name := range []string{"mix", "blend"} {
			cfg.Mixtures = append(cfg.Mixtures, gateway.Mixture{Name: name, Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}, {Dataset: "scans", Share: 1}}}})
		}
		cfg.Mix, cfg.Access, cfg.Allow = mix, m.guard, nil
		cfg.Cluster = func() any { return map[string]string{} }
		cfg.Reload = func(context.Context, string) ([]gateway.Change, error) { return nil, nil }
		if edit != nil {
			edit(cfg)
		}
	})
	m.source.warm = func(at shuffle.Cursor) (batch.Warmed, error) { return batch.Warmed{Next: at.End}, nil }
	return m
}

func (m *matrix) lossesOf(t *testing.T, cfg importance.Config) *importance.Log {
	return (&rig{t: t}).losses(cfg)
}

// put replaces the access file.
func (m *matrix) put(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// by returns the caller with a name.
func (m *matrix) by(name string) caller {
	return m.callers[slices.IndexFunc(m.callers, func(c caller) bool { return c.name == name })]
}

// ask sends a request of a caller to one of the two ports.
func (m *matrix) ask(port http.Handler, c caller, method, path, body string, headers ...string) answer {
	m.t.Helper()
	r := httptest.NewRequestWithContext(m.t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Request-Id", "same")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header["Authorization"] = c.headers
	if c.certificate != nil {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c.certificate}}}
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	port.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.Bytes()}
}

// issuer signs JWTs.
type issuer struct {
	*httptest.Server
	key ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := &issuer{key: key}
	id.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, id.URL, id.URL+"/keys")
	}))
	t.Cleanup(id.Close)
	return id
}

// sign returns a JWT that expires after the given time.
func (id *issuer) sign(subject string, lasts time.Duration) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "EdDSA", "kid": "one"}) + "." + part(map[string]any{
		"iss": id.URL, "aud": "millrace", "sub": subject, "exp": time.Now().Add(lasts).Unix(),
	})
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(id.key, []byte(text)))
}

// fetched runs a guard until it has the issuer's keys.
func (id *issuer) fetched(t *testing.T, g *auth.Guard) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	for g.Stats().Issuers[0].Keys == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
