package harness

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/certs"
)

// binaryVariable is the environment variable with the path of the binary that Build compiled.
const binaryVariable = "TEST_MILLRACE_BINARY"

// Main builds the program of the module at root, runs the tests with it, and returns their exit status.
func Main(m *testing.M, root string) int {
	dir, err := os.MkdirTemp("", "millrace-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := Build(root, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build compiles the millrace command into dir and records its path. root is the directory of the
// program's module. TestMain calls it once, before any test runs.
func Build(root, dir string) error {
	path := filepath.Join(dir, "millrace")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/millrace")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build millrace: %w\n%s", err, out)
	}
	return os.Setenv(binaryVariable, path)
}

// Edit replaces a text in a source file. The text must occur exactly once.
type Edit struct{ File, Text, Other string }

// Planted compiles the millrace command with edits, at most one per file, and returns its path.
// root is the directory of the program's module.
func Planted(t testing.TB, root string, edits ...Edit) string {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, replaced := t.TempDir(), map[string]string{}
	for i, e := range edits {
		source, err := os.ReadFile(filepath.Join(root, e.File))
		if err != nil || strings.Count(string(source), e.Text) != 1 {
			t.Fatalf("%s does not hold %q once: %v", e.File, e.Text, err)
		}
		changed := filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(source), e.Text, e.Other, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, e.File)] = changed
	}
	path, overlay := filepath.Join(dir, "millrace"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", path, "./cmd/millrace")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build millrace: %v\n%s", err, out)
	}
	return path
}

// Binary returns the path of the millrace command.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv(binaryVariable)
	if path == "" {
		t.Fatal("find millrace: TestMain has not built it")
	}
	return path
}

// Result is the result of a finished command.
type Result struct {
	Code   int
	Stdout string
	Stderr string
}

// Run runs one millrace command and waits for its exit.
func Run(t testing.TB, store *Store, args ...string) Result {
	t.Helper()
	env, flags := settings(append(baseEnv(t), store.Env...), args)
	cmd := exec.CommandContext(t.Context(), Binary(t), flags...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := store.at.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("millrace %s: %v", strings.Join(args, " "), err)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// MustRun runs one millrace command, which must succeed, and returns its standard output.
func MustRun(t testing.TB, store *Store, args ...string) string {
	t.Helper()
	r := Run(t, store, args...)
	if r.Code != 0 {
		t.Fatalf("millrace %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Gateway is a running `millrace serve`.
type Gateway struct {
	*Process
	URL   string // http://host:port
	Admin string // address of the metrics

	asker *http.Client // nil: the default client
	log   *history.Log // log of the test; nil: none
}

// Front returns a server in front of gateways as a Gateway. Gateway's methods then send requests to
// that server.
func Front(t testing.TB, process *Process, url string) *Gateway {
	t.Helper()
	return &Gateway{Process: process, URL: url, log: Recorded(t)}
}

// Serve starts a gateway for one dataset of store, served under the dataset's own name.
func Serve(t testing.TB, store *Store, dataset string, args ...string) *Gateway {
	t.Helper()
	return ServeUnder(t, plainScript, store, dataset, args...)
}

// ServeTLS starts a gateway like Serve, with certificate files. The methods of Gateway send their
// requests over TLS, with a new connection each time.
func ServeTLS(t testing.TB, files certs.Config, believed *x509.CertPool, store *Store, dataset string, args ...string) *Gateway {
	t.Helper()
	free := FreeAddresses(t, 2)
	address, admin := free[0], free[1]
	all := append([]string{
		"serve", "--dataset", dataset + "=" + store.Dataset(dataset), "--listen", address, "--admin-listen", admin,
		"--tls-cert", files.Cert, "--tls-key", files.Key,
	}, args...)
	g := &Gateway{
		Process: Start(t, "millrace serve", Binary(t), append(baseEnv(t), store.Env...), all...),
		URL:     "https://" + address, Admin: "https://" + admin,
		log:   Recorded(t),
		asker: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: believed}}},
	}
	g.Await(t, "/readyz")
	return g
}

// ServeUnder starts a gateway like Serve, through a shell script. The script receives the gateway's
// command line as arguments and must execute it last.
func ServeUnder(t testing.TB, script string, store *Store, dataset string, args ...string) *Gateway {
	t.Helper()
	return serveUnder(t, script, store, dataset+"="+store.Dataset(dataset), args...)
}

// ServeAddress starts a gateway like Serve, for a dataset argument NAME=URL, in the environment of
// a store.
func ServeAddress(t testing.TB, store *Store, address string, args ...string) *Gateway {
	t.Helper()
	return serveUnder(t, plainScript, store, address, args...)
}

// plainScript only executes its command line.
const plainScript = `exec "$0" "$@"`

func serveUnder(t testing.TB, script string, store *Store, dataset string, args ...string) *Gateway {
	t.Helper()
	free := FreeAddresses(t, 2)
	address, admin := free[0], free[1]
	all := append([]string{
		"-c", script, Binary(t), "serve", "--dataset", dataset,
		"--listen", address, "--admin-listen", admin,
	}, allowed(args)...)
	g := &Gateway{
		Process: Start(t, "millrace serve", "/bin/sh", append(baseEnv(t), store.Env...), all...),
		URL:     "http://" + address, Admin: "http://" + admin, log: Recorded(t),
	}
	g.Ready(t, Answers(g.URL+"/readyz"))
	return g
}

// allowed lets every client read, report and warm, unless there is an access file.
func allowed(args []string) []string {
	if slices.Contains(args, "--access") {
		return args
	}
	return append([]string{"--allow", "read,report,warm"}, args...)
}

// ServeAt starts a gateway without a cluster on a node, at port 8080 of the node's address.
func ServeAt(t testing.TB, at *Node, store *Store, dataset string, args ...string) *Gateway {
	t.Helper()
	all := append([]string{
		"serve", "--dataset", dataset + "=" + store.Dataset(dataset), "--insecure-no-auth", "--insecure-admin", "--allow", "read,report,warm",
		"--listen", at.IP + ":8080", "--admin-listen", at.IP + ":8081",
	}, args...)
	g := &Gateway{
		Process: StartAt(t, at, "millrace serve", Binary(t), append(baseEnv(t), store.Env...), all...),
		URL:     "http://" + at.IP + ":8080", Admin: "http://" + at.IP + ":8081", asker: at.client(), log: Recorded(t),
	}
	g.Ready(t, at.answers(g.URL+"/readyz"))
	return g
}

// Response is a complete response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get requests path from the gateway. header holds pairs of name and value.
func (g *Gateway) Get(t testing.TB, path string, header ...string) Response {
	t.Helper()
	r, err := g.Try(t.Context(), path, header...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (g *Gateway) client() *http.Client { return cmp.Or(g.asker, http.DefaultClient) }

// Try requests path from a gateway that may not respond.
func (g *Gateway) Try(ctx context.Context, path string, header ...string) (Response, error) {
	start := time.Now()
	r, err := send(ctx, g.client(), http.MethodGet, g.URL+path, nil, header...)
	g.note(path, start, r, err, header)
	return r, err
}

// MustGet requests path, requires status 200, and returns the response.
func (g *Gateway) MustGet(t testing.TB, path string, header ...string) Response {
	t.Helper()
	r := g.Get(t, path, header...)
	if r.Status != http.StatusOK {
		t.Fatalf("GET %s: got %d %s, want 200", path, r.Status, r.Body)
	}
	return r
}

// Await repeats a request for path until the status is 200.
func (g *Gateway) Await(t testing.TB, path string, header ...string) {
	t.Helper()
	g.Ready(t, func(ctx context.Context) error {
		r, err := g.Try(ctx, path, header...)
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("GET %s: status %d", path, r.Status)
		}
		return err
	})
}

// TryAdmin requests path from the admin port, which may not respond.
func (g *Gateway) TryAdmin(ctx context.Context, path string) (Response, error) {
	return send(ctx, g.client(), http.MethodGet, g.Admin+path, nil)
}

// Post sends a body to path on the gateway.
func (g *Gateway) Post(t testing.TB, path string, body []byte) Response {
	t.Helper()
	r, err := send(t.Context(), g.client(), http.MethodPost, g.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Do sends one request without a body and reads the complete response.
func Do(ctx context.Context, method, url string, header ...string) (Response, error) {
	return DoWith(ctx, http.DefaultClient, method, url, header...)
}

// DoWith sends one request like Do, with the given client.
func DoWith(ctx context.Context, asker *http.Client, method, url string, header ...string) (Response, error) {
	return send(ctx, asker, method, url, nil, header...)
}

func send(ctx context.Context, asker *http.Client, method, url string, body []byte, header ...string) (Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := asker.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return Response{}, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: answer}, nil
}

// Metric returns the sum over all lines of the metrics whose name matches pattern and that contain
// text.
func (g *Gateway) Metric(t testing.TB, pattern, text string) float64 {
	t.Helper()
	r, err := send(t.Context(), g.client(), http.MethodGet, g.Admin+"/metrics", nil)
	if err != nil || r.Status != http.StatusOK {
		t.Fatalf("read metrics: status %d, %v", r.Status, err)
	}
	name := regexp.MustCompile(`^` + pattern + `(\{|\s)`)
	sum := 0.0
	for line := range strings.Lines(string(r.Body)) {
		line = strings.TrimSpace(line)
		if !name.MatchString(line) || !strings.Contains(line, text) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("read metrics: %q: %v", line, err)
		}
		sum += v
	}
	return sum
}
