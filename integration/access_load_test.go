package integration_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// withheld is a second name of the dataset, which only some visitors may read.
const withheld = "withheld"

// visitor is a client of the load: its token, and the allowed statuses for the dataset and for the
// withheld one.
type visitor struct {
	name, token     string
	visible, closed []int // allowed in addition to store errors
}

// throng is a gateway under load, with counts of the responses that its visitors received.
type throng struct {
	t      *testing.T
	g      *harness.Gateway
	tls    *tls.Config
	log    *history.Log
	n      int                      // number of batches in an epoch
	next   map[string]*atomic.Int64 // next batch of each dataset; all visitors share it
	mu     sync.Mutex
	seen   map[string]int
	wrong  atomic.Int64
	faults atomic.Int64 // store errors that the proxy injected
	budget int64
}

const (
	throngShare = "?batch_size=16"

	// headTime is roughly the gateway's timeout for a request's headers. A request that took as
	// long on a stalled machine may stay unanswered.
	headTime = 4 * time.Second

	// ofVisitor is the memory of a TLS connection outside the budget, including the garbage of its
	// handshakes.
	ofVisitor = 128 << 10
)

// longAnswer returns the path of a request for several batches in one response.
func longAnswer(name string) string {
	return "/v1/datasets/" + name + "/epochs/0/batches" + throngShare + "&from=0&count=8"
}

func (c *throng) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what]++
}

func (c *throng) fail(format string, args ...any) {
	if c.wrong.Add(1) <= 20 {
		c.t.Errorf(format, args...)
	}
}

// passing names an error that the client may retry: a store error, or a gateway short of memory. It
// returns "" for any other response.
func passing(r harness.Response) string {
	switch text := string(r.Body); {
	case r.Status < 502 || r.Status > 504 || !strings.Contains(text, `"retryable":true`):
		return ""
	case strings.Contains(text, `"code":"store_`):
		return "store errors"
	case strings.Contains(text, `"code":"overloaded"`):
		return "overloaded"
	}
	return ""
}

// visit sends requests as a visitor until ctx ends, over kept-alive connections or over a new one
// for each request. After a refusal it waits longer.
func (c *throng) visit(ctx context.Context, v visitor, kept bool, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	asker := &http.Client{Transport: c.log.Through(v.name, &http.Transport{TLSClientConfig: c.tls.Clone(), DisableKeepAlives: !kept})}
	defer asker.CloseIdleConnections()
	pause := 20
	for ctx.Err() == nil {
		time.Sleep(time.Duration(random.IntN(pause)) * time.Millisecond)
		name, may := dataset, v.visible
		if random.IntN(8) == 0 {
			name, may = withheld, v.closed
		}
		path := longAnswer(name)
		if random.IntN(64) != 0 {
			m := int(c.next[name].Add(1)-1) % c.n
			path = strings.Replace(batchPath(0, m), dataset, name, 1) + throngShare
		}
		header := []string{"Authorization", "Bearer " + v.token}
		if v.token == "" {
			header = nil
		}
		began := time.Now()
		r, err := harness.DoWith(ctx, asker, http.MethodGet, c.g.URL+path, header...)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !strings.Contains(path, "/batches?") || !strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) { // a long response may be cut short
				if time.Since(began) < headTime {
					c.fail("%s: %s: after %v: %v", v.name, path, time.Since(began), err)
				}
			}
			c.count("cut short: " + v.name)
			continue
		case passing(r) != "" && slices.Contains(may, http.StatusOK):
			c.count(passing(r))
			continue
		case !slices.Contains(may, r.Status):
			c.fail("%s: %s: got status %d, want one of %v: %s", v.name, path, r.Status, may, r.Body)
		case r.Status != http.StatusOK && r.Header.Get("ETag")+r.Header.Get("Millrace-Generation") != "":
			c.fail("%s: %s: a refusal describes what it refuses: %v", v.name, path, r.Header)
		}
		c.count(fmt.Sprint(r.Status))
		if pause = 20; r.Status != http.StatusOK {
			pause = 1000
		}
	}
}

// TestAccessChangesUnderLoad replaces the access file and the certificate each second, sometimes
// with invalid content. Meanwhile the store fails now and then, and many clients read over TLS.
// Each client gets only responses that its rights allow, and the gateway releases everything
// afterwards.
func TestAccessChangesUnderLoad(t *testing.T) {
	clients, lasts, samples, cache := 24, 5*time.Second, 1200, 16
	if long() { // more data than memory, and memory for many clients
		clients, lasts, samples, cache = 200, 50*time.Minute, 4800, 64
	}
	files, _ := harness.Files(t, samples, 20000)
	store := harness.Open(t, "minio")
	harness.Pack(t, store, files, dataset, "--shard-size", "4MiB", "--chunk-size", "64KiB")
	var fault atomic.Pointer[http.HandlerFunc]
	shaky := behind(t, store, &fault)
	ca, dir := certtest.New(t), t.TempDir()
	pair, access, record := ca.Issue(t, dir, nil), filepath.Join(dir, "access.yaml"), filepath.Join(dir, "audit.log")
	text := map[string]string{}
	for _, name := range []string{"steady", "coming", "moving", "unknown", "idle"} {
		text[name], _ = auth.NewToken()
	}
	put(t, access, accessVersion(text, 0))
	log := harness.Record(t, harness.Packed(t, store, dataset))
	g := harness.ServeTLS(t, pair, ca.Pool(), shaky, dataset, "--dataset", withheld+"="+store.Dataset(dataset), "--cache-size", fmt.Sprint(cache, "MiB"),
		"--access", access, "--audit-log", record, "--log-level", "debug", "--lame-duck", "1ms")
	c := &throng{t: t, g: g, log: log, n: samples / 50, tls: &tls.Config{RootCAs: ca.Pool()}, seen: map[string]int{}, next: map[string]*atomic.Int64{dataset: {}, withheld: {}}, budget: int64(cache) << 20}
	bearer := []string{"Authorization", "Bearer " + text["steady"]}
	g.MustGet(t, longAnswer(dataset), bearer...)
	before := g.Metric(t, "go_goroutines", "")
	visitors := []visitor{
		{"steady", text["steady"], []int{200}, []int{404}},
		{"coming", text["coming"], []int{200, 401}, []int{404, 401}},
		{"moving", text["moving"], []int{200, 404}, []int{200, 404}},
		{"idle", text["idle"], []int{404}, []int{404}},
		{"unknown", text["unknown"], []int{401}, []int{401}},
		{"nobody", "", []int{401}, []int{401}},
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { c.visit(ctx, visitors[i%len(visitors)], i/len(visitors)%2 == 0, uint64(i)) })
	}
	changes := c.change(ctx, func(n int) { put(t, access, accessVersion(text, n)) }, ca, dir, pair, &fault)
	all.Wait()
	fault.Store(nil)
	put(t, access, accessVersion(text, 0))
	for m := range c.n { // the gateway has recovered
		g.Await(t, batchPath(0, m)+throngShare, bearer...)
	}
	g.MustGet(t, longAnswer(dataset), bearer...) // the history checks the response
	g.Ready(t, func(context.Context) error {     // all running work has ended
		if after := g.Metric(t, "go_goroutines", ""); after > before+20 {
			return fmt.Errorf("%v goroutines, %v before", after, before)
		}
		return nil
	})
	c.report(clients, changes, record, text)
}

// change replaces files and injects store errors until ctx ends.
func (c *throng) change(ctx context.Context, access func(int), ca *certtest.Authority, dir string, pair certs.Config, fault *atomic.Pointer[http.HandlerFunc]) (changes int) {
	throttled := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered(r)
		c.faults.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code></Error>`)
	})
	gone := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		answered(r)
		c.faults.Add(1)
		panic(http.ErrAbortHandler)
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		changes++
		access(changes)
		if changes%3 == 0 {
			if err := os.WriteFile(pair.Cert, []byte("-----BEGIN CERT"), 0o600); err != nil {
				c.t.Error(err)
			}
		} else {
			ca.Issue(c.t, dir, nil)
		}
		fault.Store([]*http.HandlerFunc{nil, &throttled, nil, &gone, nil}[changes%5])
		select {
		case <-time.After(300 * time.Millisecond): // the store fails for this long
		case <-ctx.Done():
		}
		fault.Store(nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return changes
}

// report logs the counts, and checks them for violations.
func (c *throng) report(clients, changes int, record string, text map[string]string) {
	c.t.Helper()
	audited, err := os.ReadFile(record)
	if err != nil {
		c.t.Fatal(err)
	}
	log := c.g.Log()
	for name, token := range text {
		for what, where := range map[string]string{"log": log, "audit log": string(audited)} {
			if strings.Contains(where, token) {
				c.t.Errorf("the %s holds the token of %s", what, name)
			}
		}
	}
	for _, word := range []string{"panic", "goroutine "} {
		if strings.Contains(log, word) {
			c.t.Errorf("the log holds %q", word)
		}
	}
	for _, outcome := range []string{"401", "404"} {
		if c.seen[outcome] < 10 {
			c.t.Errorf("got %d answers of the kind %s, want 10 or more", c.seen[outcome], outcome)
		}
	}
	if good, bad := c.seen["200"], c.seen["store errors"]+c.seen["overloaded"]; good < 4*bad || good < 20 {
		c.t.Errorf("got %d batches and %d errors of the store or of memory", good, bad)
	}
	if c.faults.Load() == 0 {
		c.t.Error("the store never failed")
	}
	peak := peakRSS(c.t, c.g.Pid())
	if limit := c.budget + 64<<20 + int64(clients)*ofVisitor; peak > limit {
		c.t.Errorf("got %d bytes of memory at most, want at most %d", peak, limit)
	}
	total := 0
	for n := range maps.Values(c.seen) {
		total += n
	}
	c.t.Logf("%d changes of each file; %d answers of the store failed; %d answers, %d of them wrong: %v; %d lines of audit; %d MiB at most",
		changes, c.faults.Load(), total, c.wrong.Load(), c.seen, bytes.Count(audited, []byte("\n")), peak>>20)
}

// accessVersion returns the n-th content of the access file; every third is invalid. The token
// "steady" always reads the dataset, "coming" is valid in every second version, and "moving"
// alternates between the two datasets.
func accessVersion(text map[string]string, n int) string {
	if n%3 == 2 {
		return "tokens: ["
	}
	var b strings.Builder
	b.WriteString("tokens:\n")
	for _, name := range []string{"steady", "moving", "idle", "coming"} {
		if name != "coming" || n%2 == 0 {
			fmt.Fprintf(&b, "  - {name: %s, sha256: %x}\n", name, sha256.Sum256([]byte(text[name])))
		}
	}
	reads := fmt.Sprintf("%q", "token:steady")
	if n%2 == 0 {
		reads += fmt.Sprintf(", %q", "token:coming")
	}
	fmt.Fprintf(&b, "grants:\n  - {who: [%s], datasets: [%s], rights: [read]}\n  - {who: [%q], datasets: [%s], rights: [read]}\n", reads, dataset, "token:moving", []string{dataset, withheld}[n%2])
	b.WriteString("  - {who: [anonymous], rights: [admin]}\n") // for the test itself
	return b.String()
}

// TestPortsThatOthersReach checks that without an access file the gateway opens no port to other
// machines unless a flag says so, and that an access file cannot be combined with a flag for
// rights.
func TestPortsThatOthersReach(t *testing.T) {
	store, access := packed(t, "dir"), filepath.Join(t.TempDir(), "access.yaml")
	put(t, access, "grants: [{who: [anonymous], datasets: [\"*\"], rights: [read]}]\n")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{0, "", nil},
		{2, "--insecure-no-auth", []string{"--listen", "0.0.0.0:0"}},
		{2, "--insecure-no-auth", []string{"--listen", ":0"}},
		{2, "--insecure-no-auth", []string{"--listen", "[::]:0"}},
		{2, "--insecure-admin", []string{"--admin-listen", "0.0.0.0:0"}},
		{2, "--insecure-admin", []string{"--admin-listen", "0.0.0.0:0", "--insecure-no-auth"}},
		{0, "", []string{"--listen", "0.0.0.0:0", "--insecure-no-auth"}},
		{0, "", []string{"--admin-listen", "0.0.0.0:0", "--insecure-admin"}},
		{0, "", []string{"--listen", "0.0.0.0:0", "--access", access}},
		{2, "--insecure-no-auth", []string{"--listen", "127.0.0.1:0,0.0.0.0:0"}},
		{2, "--insecure-no-auth", []string{"--listen", "unix:/tmp/s,:0"}},
		{2, "must be HOST:PORT or unix:PATH", []string{"--listen", "127.0.0.1:0,"}},
		{0, "", []string{"--listen", "unix:/tmp/s"}},
		{0, "", []string{"--listen", "127.0.0.1:0", "MILLRACE_SOCKET_MODE=0666"}},
		{2, "socket-mode 0660 lets other users connect to unix:/tmp/s: add --access FILE", []string{"--listen", "127.0.0.1:0,unix:/tmp/s", "MILLRACE_SOCKET_MODE=0660"}},
		{2, "--insecure-admin", []string{"--admin-listen", "unix:/tmp/s", "MILLRACE_SOCKET_MODE=0666"}},
		{0, "", []string{"--listen", "unix:/tmp/s", "MILLRACE_SOCKET_MODE=0666", "--insecure-no-auth"}},
		{0, "", []string{"--listen", "127.0.0.1:0,unix:/tmp/s", "MILLRACE_SOCKET_MODE=0666", "--access", access}},
		{2, "must be permissions such as 0600", []string{"MILLRACE_SOCKET_MODE=0066"}},
		{2, "must be permissions such as 0600", []string{"MILLRACE_SOCKET_MODE=1666"}},
		{2, "must be permissions such as 0600", []string{"MILLRACE_SOCKET_MODE=rw"}},
		{2, "--allow", []string{"--allow", "read,report", "--access", access}},
		{2, "--allow", []string{"--insecure-no-auth", "--access", access}},
		{2, "admin", []string{"--allow", "admin"}},
		{2, access, []string{"--access", access + ".none"}},
		{2, "trusted-proxies", []string{"--trusted-proxies", "10.0.0.300"}},
	} {
		r := harness.Run(t, store, append([]string{"serve", "--check", "--dataset", dataset + "=" + store.Dataset(dataset), "--listen", "127.0.0.1:0"}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%q: got exit code %d and %s, want %d and %q", c.args, r.Code, r.Stderr, c.code, c.want)
		}
	}
}
