package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/certs/certtest"
)

// TestTokensOfAnIssuer has a certified OpenID Connect provider make the tokens.
func TestTokensOfAnIssuer(t *testing.T) {
	store, ca := *packed(t, "dir"), certtest.New(t)
	files := ca.Issue(t, t.TempDir(), nil)
	issuer, access := harness.NewIssuer(t, files), filepath.Join(t.TempDir(), "access.yaml")
	text := fmt.Sprintf(`issuers:
  - {name: corp, issuer: %q, audience: millrace, groups: groups}
grants:
  - {who: ["group:corp#research"], datasets: [%s], rights: [read]}
  - {who: ["jwt:corp#%s"], rights: [admin]}
`, issuer.URL, dataset, harness.IssuerCaller)
	if err := os.WriteFile(access, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store.Env = append(store.Env, "SSL_CERT_FILE="+files.CA)
	g := harness.Serve(t, &store, dataset, "--cache-size", "64MiB", "--access", access)
	ask := func(token string) int {
		t.Helper()
		a, err := harness.Do(t.Context(), http.MethodGet, g.URL+"/epoch/0/batch/0", "Authorization", "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	good := issuer.Token(t, "millrace", "research")
	for deadline := time.Now().Add(20 * time.Second); ask(good) != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) { // the gateway fetches the keys beside its requests
			t.Fatalf("the issuer's token: got %d, want 200", ask(good))
		}
	}
	if got := ask(issuer.Token(t, "another", "research")); got != http.StatusUnauthorized {
		t.Errorf("a token for somebody else: got %d, want 401", got)
	}
	if got := ask(issuer.Token(t, "millrace", "sales")); got != http.StatusNotFound {
		t.Errorf("a caller of another group: got %d, want 404", got)
	}
	if got := ask(good[:len(good)-8] + "AAAAAAAA"); got != http.StatusUnauthorized {
		t.Errorf("another signature: got %d, want 401", got)
	}
	issuer.Rotate()
	rotated := issuer.Token(t, "millrace", "research")
	if long() { // a gateway asks for an unknown key once a minute at most
		for deadline := time.Now().Add(90 * time.Second); ask(rotated) != http.StatusOK; time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				t.Fatalf("the new key's token: got %d, want 200", ask(rotated))
			}
		}
	}
	issuer.Stop()
	if got := ask(good); got != http.StatusOK {
		t.Errorf("a token whose issuer is down: got %d, want 200", got)
	}
}
