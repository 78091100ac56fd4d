package harness

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Process is a child process whose output is recorded. It is killed when its test ends and, on
// Linux, when the test binary dies before that.
type Process struct {
	Name string

	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed after Wait has returned
	err  error         // result of Wait, valid after done
}

// tail stores the first and the last bytes that are written to it, so that a log has bounded
// memory.
type tail struct {
	mu   sync.Mutex
	head bytes.Buffer // guarded by mu
	last []byte       // guarded by mu
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tailBytes - t.head.Len(); room > 0 {
		t.head.Write(p[:min(room, len(p))])
		if room >= len(p) {
			return len(p), nil
		}
		t.last = append(t.last, p[room:]...)
	} else {
		t.last = append(t.last, p...)
	}
	if len(t.last) > 2*tailBytes {
		t.last = append([]byte(nil), t.last[len(t.last)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head.String() + string(t.last)
}

// settings splits args: arguments of the form MILLRACE_NAME=VALUE are settings without a flag, and
// move to the environment.
func settings(env, args []string) (all, flags []string) {
	all = slices.Clip(env)
	for _, arg := range args {
		if strings.HasPrefix(arg, "MILLRACE_") {
			all = append(all, arg)
		} else {
			flags = append(flags, arg)
		}
	}
	return all, flags
}

// Start starts path with args. env is the complete environment of the child, except for settings in
// args.
func Start(t testing.TB, name, path string, env []string, args ...string) *Process {
	t.Helper()
	return StartAt(t, nil, name, path, env, args...)
}

// StartAt starts a process like Start, on a node of an island. A nil node is this machine.
func StartAt(t testing.TB, at *Node, name, path string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, log: &tail{}, done: make(chan struct{})}
	env, args = settings(env, args)
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = env
	p.cmd.Stdout = p.log
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = ChildAttributes()
	// A grandchild that holds the pipes must not prevent Wait from returning.
	p.cmd.WaitDelay = 5 * time.Second
	if err := at.Do(p.cmd.Start); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.Name, p.log)
		}
	})
	return p
}

// Kill kills the process with SIGKILL, and waits for its exit. This also works on a stopped
// process.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop sends SIGTERM to the process and returns the result of Wait.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(30 * time.Second):
		p.Kill()
		return fmt.Errorf("stop %s: still running 30 s after SIGTERM", p.Name)
	}
}

// Terminate sends SIGTERM and returns at once; Stop waits.
func (p *Process) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Interrupt sends SIGINT, as Ctrl-C does, and returns at once; Stop waits.
func (p *Process) Interrupt() { _ = p.cmd.Process.Signal(syscall.SIGINT) }

// HangUp sends SIGHUP, on which a gateway reloads its datasets.
func (p *Process) HangUp() { _ = p.cmd.Process.Signal(syscall.SIGHUP) }

// Ended returns a channel that is closed when the process has exited.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Freeze stops the process with SIGSTOP: it no longer responds, but the kernel still accepts
// connections for it.
func (p *Process) Freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (p *Process) Thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log returns the process's output. A long output lacks its middle.
func (p *Process) Log() string { return p.log.String() }

// Ready polls probe until it returns nil. The test fails if the process exits, or after 60 s.
func (p *Process) Ready(t testing.TB, probe func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("start %s: ended: %v", p.Name, p.err)
		case <-ctx.Done():
			t.Fatalf("start %s: not ready: %v", p.Name, err)
		case <-tick.C:
		}
	}
}

// Ports for servers are below the range that the system uses for outgoing connections; otherwise a
// connection could take a port before its server does. They are above 10080, the last port that
// Chromium refuses to open. The Python tests use a range above these.
const (
	firstPort  = 10_100
	portBlocks = 19 // number of test programs that can allocate ports concurrently
	blockPorts = 500
)

// portBlock is a range of ports that only this process allocates.
type portBlock struct {
	lock   *os.File // locked until the process exits
	first  uint32
	handed atomic.Uint32
}

// claimPorts claims the first range of ports that no other test program has claimed.
func claimPorts() (*portBlock, error) {
	for i := range uint32(portBlocks) {
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint("millrace-test-ports-", i)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil { // the file belongs to another user
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			b := &portBlock{lock: lock, first: firstPort + i*blockPorts}
			b.handed.Store(rand.Uint32N(blockPorts)) // the previous owner may have used the first ports
			return b, nil
		}
		lock.Close()
	}
	return nil, fmt.Errorf("all %d ranges of ports are locked: %s", portBlocks, filepath.Join(os.TempDir(), "millrace-test-ports-*"))
}

var ports = sync.OnceValues(claimPorts)

// FreeAddress returns a free loopback address. Other running test programs do not allocate it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	b, err := ports()
	if err != nil {
		t.Fatal(err)
	}
	for range blockPorts {
		address := fmt.Sprint("127.0.0.1:", b.first+b.handed.Add(1)%blockPorts)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// FreeAddresses returns n different free addresses.
func FreeAddresses(t testing.TB, n int) []string {
	t.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = FreeAddress(t)
	}
	return all
}

// Installed returns the path of a program that tools/deps.sh installs into the cache.
func Installed(t testing.TB, name string) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	path := filepath.Join(cache, "millrace", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("find %s: %v; run make deps", name, err)
	}
	return path
}

// Answers returns a probe for Ready, which requires status 200 from url.
func Answers(url string) func(context.Context) error { return (*Node)(nil).answers(url) }

func (n *Node) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := send(ctx, n.client(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if r.Status != http.StatusOK {
			return fmt.Errorf("GET %s: status %d", url, r.Status)
		}
		return nil
	}
}

// Logs returns a probe for Ready, which requires that the log contains all of the given texts.
func (p *Process) Logs(words ...string) func(context.Context) error {
	return func(context.Context) error {
		text := p.Log()
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("the log of %s does not hold %q", p.Name, w)
			}
		}
		return nil
	}
}
