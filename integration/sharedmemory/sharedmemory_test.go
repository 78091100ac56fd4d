//go:build linux

package sharedmemory_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(readerVariable); order != "" {
		err := run(order)
		fmt.Println(err)
		os.Exit(sawWrong)
	}
	os.Exit(harness.Main(m, "../.."))
}

const (
	readers = 64
	budget  = 256 << 20
)

// span is how long the readers run: 50 minutes in a long run.
func span() time.Duration {
	if os.Getenv("MILLRACE_LONG") == "1" {
		return 50 * time.Minute
	}
	return 20 * time.Second
}

// gateway is a gateway on a Unix socket, which overwrites released memory.
type gateway struct {
	*harness.Process
	socket string
	client *http.Client
	who    string // tokens and datasets, as arguments of a reader
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"photos", "secrets"} {
		files := filepath.Join(dir, "files-"+name)
		if err := os.Mkdir(files, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 1024 {
			content := make([]byte, 8192)
			_, _ = rand.Read(content)
			if name == "secrets" {
				for at := range len(content) {
					content[at] = hidden[at%len(hidden)]
				}
			}
			if err := os.WriteFile(filepath.Join(files, fmt.Sprintf("%04d.bin", i)), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		pack := exec.CommandContext(t.Context(), harness.Binary(t), "pack", files, filepath.Join(dir, name), "--chunk-size", "1MiB", "--batch-size", "64")
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("pack: %v\n%s", err, out)
		}
	}
	g := &gateway{socket: filepath.Join(dir, "socket")}
	access, grants := "tokens:\n", "grants:\n"
	tokens := map[string]string{}
	for name, rights := range map[string]string{
		"alice": "datasets: [photos], rights: [read]", "bob": "datasets: [secrets], rights: [read]", "watcher": "rights: [admin]",
	} {
		tokens[name] = "mr_" + (rand.Text() + rand.Text())[:43]
		access += fmt.Sprintf("  - {name: %s, sha256: %x}\n", name, sha256.Sum256([]byte(tokens[name])))
		grants += fmt.Sprintf("  - {who: [\"token:%s\"], %s}\n", name, rights)
	}
	g.who = fmt.Sprintf(" %s photos %s secrets", tokens["alice"], tokens["bob"])
	file := filepath.Join(dir, "access.yaml")
	if err := os.WriteFile(file, []byte(access+grants), 0o600); err != nil {
		t.Fatal(err)
	}
	poisoning := harness.Planted(t, "../..", harness.Edit{
		File: "internal/shared/pool.go", Text: "s.state, s.since = free, time.Now()",
		Other: "s.state, s.since = free, time.Now()\n\t\t\tfor i := range s.bytes {\n\t\t\t\ts.bytes[i] = 0xDB\n\t\t\t}",
	})
	g.Process = harness.Start(t, "millrace serve", poisoning, os.Environ(), "serve", "photos="+filepath.Join(dir, "photos"),
		"secrets="+filepath.Join(dir, "secrets"), "--listen", "unix:"+g.socket, "--access", file, "--cache-size", strconv.Itoa(budget), "--log-level", "error")
	g.client = &http.Client{Transport: asAdmin{tokens["watcher"], &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", g.socket)
	}}}}
	g.Ready(t, func(ctx context.Context) error { _, err := g.metrics(ctx); return err })
	return g
}

// asAdmin is a transport that adds a token to requests.
type asAdmin struct {
	token string
	http.RoundTripper
}

func (a asAdmin) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.RoundTripper.RoundTrip(r)
}

// metrics reads the gateway's counters.
func (g *gateway) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	found := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			found[strings.TrimPrefix(name, "millrace_")] = v
		}
	}
	return found, lines.Err()
}

// resident returns the gateway's resident memory in bytes.
func (g *gateway) resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

func (g *gateway) descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// crowd holds the results of all readers.
type crowd struct {
	t     *testing.T
	g     *gateway
	log   *history.Log
	mu    sync.Mutex // guards the fields below
	did   [4]int     // batches, in shared memory, as bytes, checks of held batches
	wrong []string
}

// one runs readers one after another, until ctx ends. place is the number of this sequence.
func (c *crowd) one(ctx context.Context, place int) {
	for life := 0; ctx.Err() == nil; life++ {
		alive, end := context.WithTimeout(ctx, time.Duration(500+mathrand.IntN(8000))*time.Millisecond)
		cmd := exec.CommandContext(alive, os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d%s", readerVariable, c.g.socket, place*100_000+life, c.g.who))
		cmd.WaitDelay = 5 * time.Second
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			c.t.Error(err)
			end()
			return
		}
		go c.freeze(alive, cmd.Process)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			c.heard(lines.Text())
		}
		_ = cmd.Wait() // killed, mostly
		end()
	}
}

// freeze repeatedly stops a reader for a while.
func (c *crowd) freeze(ctx context.Context, p *os.Process) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(mathrand.IntN(3000)) * time.Millisecond)
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(mathrand.IntN(1000)) * time.Millisecond)
		_ = p.Signal(syscall.SIGCONT)
	}
}

// heard processes a line of a reader's output.
func (c *crowd) heard(line string) {
	if strings.HasPrefix(line, "{") && c.log.Read(strings.NewReader(line)) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var did [4]int
	if _, err := fmt.Sscanf(line, "did %d %d %d %d", &did[0], &did[1], &did[2], &did[3]); err != nil {
		c.wrong = append(c.wrong, line)
		return
	}
	for i, n := range did {
		c.did[i] += n
	}
}

// TestReaders kills, stops and disconnects readers at random. The readers hold batches, forget to
// release them, and send bursts of requests.
func TestReaders(t *testing.T) {
	g := newGateway(t)
	atFirst := g.descriptors(t)
	ctx, stop := context.WithTimeout(t.Context(), span())
	defer stop()
	c := &crowd{t: t, g: g, log: harness.Record(t, nil)}
	var all sync.WaitGroup
	for place := range readers {
		all.Go(func() { c.one(ctx, place) })
	}
	var most int64
	for ctx.Err() == nil {
		most = max(most, g.resident(t))
		time.Sleep(200 * time.Millisecond)
	}
	all.Wait()
	var m map[string]float64
	var err error
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(200 * time.Millisecond) {
		if m, err = g.metrics(t.Context()); err == nil && m["shared_segments"] == 0 && g.descriptors(t) <= atFirst+1 {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: %d batches in %v, %d as memory and %d as bytes, %d looks at what was held; at most %d MiB resident of a budget of %d MiB; %.0f leases, %.0f refused",
		c.did[0], span(), c.did[1], c.did[2], c.did[3], most>>20, budget>>20, m["shared_batches_total"], m["shared_refused_total"])
	if len(c.wrong) > 0 {
		t.Errorf("readers saw: %s", strings.Join(c.wrong, "\n"))
	}
	if m["shared_segments"] != 0 || m["shared_bytes"] != 0 || m["shared_leased_bytes"] != 0 || g.descriptors(t) > atFirst+1 {
		t.Errorf("got %.0f segments with %.0f bytes, %.0f of them lent, and %d descriptors, %d of which were there at first",
			m["shared_segments"], m["shared_bytes"], m["shared_leased_bytes"], g.descriptors(t), atFirst)
	}
	if pinned := m["budget_pinned_bytes"]; pinned > budget/4 {
		t.Errorf("got %.0f bytes of the budget in use, though nobody reads", pinned)
	}
	if most > budget+64<<20 {
		t.Errorf("got %d bytes resident, of a budget of %d", most, budget)
	}
	if m["http_panics_total"] != 0 {
		t.Errorf("got %.0f panics", m["http_panics_total"])
	}
	for i, n := range c.did {
		if n == 0 {
			t.Errorf("count %d of %v is 0: nothing was tried", i, c.did)
		}
	}
}
