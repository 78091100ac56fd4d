package integration_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// neighbours is a gateway at a socket, with the programs and files that its readers require. Every
// user may read these.
type neighbours struct {
	t               *testing.T
	dir, at         string
	program         string // millrace
	access          string // the access file
	reader, watcher string // files with tokens; the second one may read metrics
	gateway         *harness.Process
	client          *http.Client
}

// newNeighbours starts a gateway with a command prefix, which places it in a container or runs it
// as another user. Users with these numbers may read without a token, and so may a client with the
// reader's token.
func newNeighbours(t *testing.T, uids []int, prefix ...string) *neighbours {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("run programs as other users: only root may; run this test as root, in a container say")
	}
	files, _ := harness.Files(t, 512, 8<<10)
	dir, err := os.MkdirTemp("", "m") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &neighbours{
		t: t, dir: dir, at: filepath.Join(dir, "run", "socket"), program: filepath.Join(dir, "millrace"),
		access: filepath.Join(dir, "access.yaml"), reader: filepath.Join(dir, "reader"), watcher: filepath.Join(dir, "watcher"),
	}
	rules := "tokens:\n"
	for _, file := range []string{n.reader, n.watcher} {
		text := "mr_" + (rand.Text() + rand.Text())[:43]
		place(t, file, text+"\n")
		rules += fmt.Sprintf("  - {name: %s, sha256: %x}\n", filepath.Base(file), sha256.Sum256([]byte(text)))
	}
	who := []string{`"token:reader"`}
	for _, uid := range uids {
		who = append(who, fmt.Sprintf("%q", fmt.Sprint("uid:", uid)))
	}
	rules += fmt.Sprintf("grants:\n  - {who: [%s], datasets: [\"*\"], rights: [read]}\n  - {who: [\"token:watcher\"], rights: [admin]}\n", strings.Join(who, ", "))
	place(t, n.access, rules)
	tool(t, "cp", harness.Binary(t), n.program)
	tool(t, n.program, "pack", files, filepath.Join(dir, dataset), "--chunk-size", "256KiB", "--batch-size", "64")
	tool(t, "chmod", "-R", "a+rX", dir)
	if err := os.Mkdir(filepath.Dir(n.at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Dir(n.at), gatewayUID, gatewayUID); err != nil {
		t.Fatal(err)
	}
	words := append(prefix, n.program, "serve", filepath.Join(dir, dataset), "--listen", "unix:"+n.at, "MILLRACE_SOCKET_MODE=0666", "--access", n.access,
		"--cache-size", "64MiB", "--lame-duck", "0s", "--log-level", "debug", "--log-format", "json")
	n.gateway = harness.Start(t, "gateway", words[0], environment(dir), words[1:]...)
	n.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", n.at)
	}}}
	n.gateway.Ready(t, func(ctx context.Context) error {
		_, err := n.get(ctx, "/readyz")
		return err
	})
	return n
}

// gatewayUID is the user of the gateway.
const gatewayUID = 4711

func environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=/tmp"}
}

// as returns a command prefix that runs a program as the given user of this machine.
func as(uid int) []string {
	return []string{"setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups", "--"}
}

// contained returns a command prefix that runs a program as a container would: as root in its own
// user, PID and mount namespaces, and as the given user outside.
func contained(uid int) []string {
	return append(as(uid), "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
}

// get sends a request to the gateway with the token that may read metrics.
func (n *neighbours) get(ctx context.Context, path string) (string, error) {
	token, err := os.ReadFile(n.watcher)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := n.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}

// lent returns the number of batches that the gateway has passed in shared memory.
func (n *neighbours) lent() int {
	n.t.Helper()
	text, err := n.get(n.t.Context(), "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	_, after, _ := strings.Cut(text, "\nmillrace_shared_batches_total ")
	number, _, _ := strings.Cut(after, "\n")
	count, err := strconv.Atoi(number)
	if err != nil {
		n.t.Fatalf("no millrace_shared_batches_total: %v", err)
	}
	return count
}

// fetch reads an epoch, and returns the output and whether the epoch was complete.
func (n *neighbours) fetch(prefix []string, env ...string) (string, bool) {
	n.t.Helper()
	words := append(prefix, n.program, "fetch", "unix:"+n.at, "--json")
	cmd := exec.CommandContext(n.t.Context(), words[0], words[1:]...)
	cmd.Env = append(environment(n.dir), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil && strings.Contains(string(out), `"samples": 512,`)
}

// TestTwoContainers runs a gateway and a reader in separate user, PID and mount namespaces, which
// share only the socket's directory. A user's number grants nothing there, so the gateway requires
// a token. With a token, batches arrive in shared memory.
func TestTwoContainers(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, []int{0, gatewayUID, 4712, 65534}, contained(gatewayUID)...)
	for name, prefix := range map[string][]string{
		"another user's container": contained(4712), "a container of the gateway's user": contained(gatewayUID), "root's container": contained(0),
		"no container": as(4712), "no container, the gateway's user": as(gatewayUID), "no container, root": as(0),
	} {
		if said, all := n.fetch(prefix); all || !strings.Contains(said, "401") && !strings.Contains(said, "credentials") {
			t.Errorf("%s, without a token: got %s, want a refusal", name, said)
		}
		if said, all := n.fetch(prefix, "MILLRACE_TOKEN_FILE="+n.reader); !all {
			t.Errorf("%s, with a token: got %s", name, said)
		}
	}
	if strings.Contains(n.gateway.Log(), `"principal":"uid:`) || !strings.Contains(n.gateway.Log(), `"principal":"token:reader"`) {
		t.Error("the log calls a reader by its number")
	}
	before := n.lent()
	path, env := harness.Python(t)
	const program = `
import sys, millrace
with millrace.Client(sys.argv[1]) as data:
    samples = sum(len(batch) for batch in data.epoch(0))
    print(samples, data.describe()["transport"])`
	words := append(contained(0), path, "-c", program, "unix:"+n.at)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env = append(env, "MILLRACE_TOKEN_FILE="+n.reader)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "512 shared memory\n" {
		t.Errorf("got %s, %v, want all samples in shared memory", out, err)
	}
	if got := n.lent() - before; got < 8 {
		t.Errorf("got %d batches as memory, want 8 or more", got)
	}
}

// TestUsersOfOneMachine checks that without namespaces a user in the access file requires no token,
// and that no other user has that user's rights.
func TestUsersOfOneMachine(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, []int{4712}, as(gatewayUID)...)
	for name, c := range map[string]struct {
		prefix []string
		token  bool
		want   bool
	}{
		"named":                        {as(4712), false, true},
		"not named":                    {as(4713), false, false},
		"root":                         {as(0), false, false},
		"named, in a container":        {contained(4712), false, false},
		"not named, with a token":      {as(4713), true, true},
		"in a container, with a token": {contained(4713), true, true},
	} {
		env := []string{}
		if c.token {
			env = append(env, "MILLRACE_TOKEN_FILE="+n.reader)
		}
		if said, all := n.fetch(c.prefix, env...); all != c.want {
			t.Errorf("%s: got %s, want all samples: %v", name, said, c.want)
		}
	}
	if !strings.Contains(n.gateway.Log(), `"principal":"uid:4712"`) {
		t.Errorf("the log does not name the user:\n%s", n.gateway.Log())
	}
}

// TestSocketInTheWayOfAnotherUser checks that in a directory where every user may write, such as
// /tmp, a gateway replaces no other user's socket.
func TestSocketInTheWayOfAnotherUser(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, nil, as(gatewayUID)...)
	everybodys := filepath.Join(n.dir, "everybodys")
	tool(t, "mkdir", "--mode", "1777", everybodys)
	at := filepath.Join(everybodys, "socket")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	serve := func(uid int) string {
		words := append(as(uid), n.program, "serve", filepath.Join(n.dir, dataset), "--listen", "unix:"+at, "--cache-size", "64MiB")
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Env = environment(n.dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("the gateway ended without an error: %s", out)
		}
		return string(out)
	}
	const want = "the path is a socket of another user, uid 0"
	if said := serve(4712); !strings.Contains(said, want) {
		t.Errorf("while root listens: got %s, want %s", said, want)
	}
	ln.Close()
	if said := serve(4712); !strings.Contains(said, want) {
		t.Errorf("after root's end: got %s, want %s", said, want)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(n.at, at); err != nil {
		t.Fatal(err)
	}
	if said := serve(gatewayUID); !strings.Contains(said, "the path exists and is not a socket") {
		t.Errorf("a link to a socket of its own: got %s, want a refusal", said)
	}
}
