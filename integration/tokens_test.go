package integration_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// tokens holds the tokens of a job: the gateways' access file and the readers' token file.
type tokens struct {
	t            *testing.T
	store        *harness.Store
	access, file string
	gateways     []*harness.Gateway
	all          []string // every token that was ever valid
}

// put replaces a file atomically: a reader finds either the old text or the new one.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// grant writes an access file with the given tokens, and waits until each gateway accepts these and
// no others.
func (x *tokens) grant(valid ...string) {
	x.t.Helper()
	var defined, who strings.Builder
	for _, text := range valid {
		sum := sha256.Sum256([]byte(text))
		name := hex.EncodeToString(sum[:4])
		fmt.Fprintf(&defined, "  - {name: job-%s, sha256: %x}\n", name, sum)
		fmt.Fprintf(&who, "%q, ", "token:job-"+name)
	}
	put(x.t, x.access, fmt.Sprintf("tokens:\n%sgrants:\n  - {who: [%s], datasets: [%s], rights: [read]}\n", defined.String(), who.String(), dataset))
	for _, g := range x.gateways {
		for _, text := range x.all {
			want := http.StatusUnauthorized
			for _, v := range valid {
				if v == text {
					want = http.StatusOK
				}
			}
			g.Ready(x.t, func(ctx context.Context) error {
				r, err := g.Try(ctx, "/v1/datasets/"+dataset, "Authorization", "Bearer "+text)
				if err == nil && r.Status != want {
					err = fmt.Errorf("got status %d, want %d", r.Status, want)
				}
				return err
			})
		}
	}
}

// replace gives the job a new token: first to the gateways, then to the readers. Then it revokes
// the old token.
func (x *tokens) replace() {
	x.t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(harness.MustRun(x.t, x.store, "token", "job", "--json")), &made); err != nil {
		x.t.Fatal(err)
	}
	text := made.Token
	valid := append(x.all[max(len(x.all)-1, 0):len(x.all):len(x.all)], text)
	x.all = append(x.all, text)
	x.grant(valid...)
	put(x.t, x.file, text+"\n")
	if len(valid) > 1 {
		x.grant(text)
	}
}

// TestTokensAreReplacedDuringEpochs reads epochs over TLS from two gateways while the job's token
// is replaced again and again. The readers are the Go client, the Python client and `millrace
// fetch`. No reader gets an error or a wrong byte, and no program prints a token.
func TestTokensAreReplacedDuringEpochs(t *testing.T) {
	store, ca, dir := packed(t, "dir"), certtest.New(t), t.TempDir()
	log := harness.Recorded(t)
	x := &tokens{t: t, store: store, access: filepath.Join(dir, "access.yaml"), file: filepath.Join(dir, "token")}
	x.replace() // no gateway runs yet
	args := []string{"--access", x.access, "--cache-size", "64MiB", "--log-level", "debug", "--audit-log", "stderr"}
	for range 2 {
		x.gateways = append(x.gateways, harness.ServeTLS(t, ca.Issue(t, t.TempDir(), nil), ca.Pool(), store, dataset, args...))
	}
	urls := []string{x.gateways[0].URL, x.gateways[1].URL}
	want, n := sha256.New(), 0
	for path := batchPath(0, 0) + "?batch_size=16"; path != ""; n++ {
		r := x.gateways[0].MustGet(t, path, "Authorization", "Bearer "+x.all[0])
		want.Write(r.Body)
		link := r.Header.Get("Link")
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	sum := hex.EncodeToString(want.Sum(nil))
	if n < 16 {
		t.Fatalf("got %d batches, want some to read while tokens are replaced", n)
	}

	rounds := 3
	if long() {
		rounds = 60
	}
	store.Env = append(store.Env, "MILLRACE_TOKEN_FILE="+x.file, "SSL_CERT_FILE="+ca.File)
	over := filepath.Join(dir, "over")
	var readers sync.WaitGroup
	until := func(read func(round int) error) {
		readers.Go(func() {
			for round, last := 0, false; !last; round++ {
				_, err := os.Stat(over)
				last = err == nil
				if err := read(round); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	asker := &http.Client{Transport: log.Through("the Go client", &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}})}
	c, err := client.New(client.Config{Gateways: urls, Dataset: dataset, TokenFile: x.file, HTTP: asker})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	until(func(int) error {
		const job = "the Go client's epoch"
		for b, err := range c.Batches(t.Context(), client.Options{BatchSize: 16}) {
			if err != nil {
				return fmt.Errorf("the Go client: %w", err)
			}
			log.Took("the Go client", job, b)
		}
		log.Complete("the Go client", job, 0)
		return nil
	})
	var said bytes.Buffer
	until(func(round int) error {
		out := filepath.Join(dir, fmt.Sprint("round-", round))
		r := harness.Run(t, store, append([]string{"fetch", "--batch-size", "16", "--output", out, "--dataset", dataset}, urls...)...)
		said.WriteString(r.Stdout + r.Stderr)
		got := sha256.New()
		for b := range n {
			body, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("batch-%06d.tar", b)))
			if r.Code != 0 || err != nil {
				return fmt.Errorf("millrace fetch: exit code %d and %w: %s", r.Code, err, r.Stderr)
			}
			got.Write(body)
		}
		if hex.EncodeToString(got.Sum(nil)) != sum {
			return fmt.Errorf("millrace fetch: got other bytes")
		}
		return os.RemoveAll(out)
	})
	path, env := harness.Python(t)
	python := exec.CommandContext(t.Context(), path, append([]string{"python/epochs.py", over, dataset}, urls...)...)
	python.Env = append(env, store.Env...)
	var stdout, stderr bytes.Buffer
	python.Stdout, python.Stderr = &stdout, &stderr
	readers.Go(func() {
		if err := python.Run(); err != nil || strings.ReplaceAll(stdout.String(), sum+"\n", "") != "" || stdout.Len() == 0 {
			t.Errorf("the Python client: got %v, %s and %s, want nothing but %s", err, stdout.String(), stderr.String(), sum)
		}
	})

	for range rounds {
		x.replace()
	}
	put(t, over, "")
	readers.Wait()
	printed := said.String() + stdout.String() + stderr.String()
	refused := 0
	for _, g := range x.gateways {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		printed += g.Log()
		refused += strings.Count(g.Log(), `"status":401`)
	}
	for i, text := range x.all {
		if strings.Contains(printed, text) {
			t.Errorf("token %d of %d is printed", i, len(x.all))
		}
	}
	t.Logf("%d tokens, %d lines of requests that were refused", len(x.all), refused)
}
