package integration_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/millrace-data/millrace/integration/harness"
)

// terminal is the program in a pseudo terminal, with the terminal's screen.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	pty    *os.File
	screen *vt.SafeEmulator
	raw    *strings.Builder // the program's output; complete once the program has exited
	ended  chan error
}

// inTerminal starts the program in a pseudo terminal of the given size.
func inTerminal(t *testing.T, columns, lines int, env []string, args ...string) *terminal {
	t.Helper()
	x := &terminal{t: t, cmd: exec.Command(harness.Binary(t), args...), screen: vt.NewSafeEmulator(columns, lines), raw: &strings.Builder{}, ended: make(chan error, 1)}
	x.cmd.Env = append([]string{"TERM=xterm-256color", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	var err error
	if x.pty, err = pty.StartWithSize(x.cmd, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() { // the terminal's replies to queries of the program
		defer close(answered)
		io.Copy(x.pty, x.screen)
	}()
	go func() {
		io.Copy(io.MultiWriter(x.raw, x.screen), x.pty)
		x.ended <- x.cmd.Wait()
	}()
	t.Cleanup(func() {
		x.cmd.Process.Kill()
		x.screen.Close()
		x.pty.Close()
		<-answered
	})
	return x
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) resize(columns, lines int) {
	x.t.Helper()
	if err := pty.Setsize(x.pty, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)}); err != nil {
		x.t.Fatal(err)
	}
	x.screen.Resize(columns, lines)
}

// shows waits until the screen contains all of the given texts. Texts that begin with an
// exclamation mark must be absent.
func (x *terminal) shows(texts ...string) string {
	x.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		seen, missing := x.screen.String(), ""
		for _, text := range texts {
			if want, hidden := strings.CutPrefix(text, "!"); hidden == strings.Contains(seen, want) {
				missing = text
			}
		}
		if missing == "" {
			return seen
		}
		if time.Now().After(end) {
			x.t.Fatalf("the screen shows\n%s\nwant %q", seen, missing)
		}
	}
}

// exits waits until the program exits, and requires its exit code.
func (x *terminal) exits(code int) {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(10 * time.Second):
		x.t.Fatal("the program does not end")
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("got exit code %d, want %d\n%s", got, code, x.raw)
	}
}

// restored requires that the program opened the alternate screen without a cursor, and closed it at its end.
func (x *terminal) restored() {
	x.t.Helper()
	before, after, ended := strings.Cut(x.raw.String(), "\x1b[?25h\x1b[?1049l")
	if !strings.Contains(before, "\x1b[?1049h\x1b[?25l") || !ended || after != "" || x.screen.IsAltScreen() {
		x.t.Errorf("the terminal is not restored: %q", x.raw)
	}
}

// TestTopWatchesAGateway watches a gateway that has readers, is killed and restarts, and one that
// never responds.
func TestTopWatchesAGateway(t *testing.T) {
	store := packed(t, "dir")
	free := harness.FreeAddresses(t, 3)
	start := func() *harness.Process {
		g := harness.Start(t, "millrace serve", harness.Binary(t), []string{"HOME=" + t.TempDir()}, "serve", "--dataset", dataset+"="+store.Dataset(dataset),
			"--listen", free[0], "--admin-listen", free[1], "--cache-size", "64MiB")
		g.Ready(t, harness.Answers("http://"+free[0]+"/readyz"))
		return g
	}
	g := start()
	x := inTerminal(t, 100, 32, []string{"NO_COLOR=1"}, "top", "http://"+free[1], "http://"+free[2], "--interval", "300ms")
	x.shows("2 gateways", "connection refused", "no batch was requested", "No rank has requested a batch", "Ctrl-C quits")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		read := func(ctx context.Context, rank int) {
			for m := 0; ctx.Err() == nil; m = (m + 1) % 10 {
				harness.Do(ctx, "GET", "http://"+free[0]+batchPath(0, m)+share(16, rank, 2))
				pause(ctx, 20*time.Millisecond)
			}
		}
		together(func(ctx context.Context) { read(ctx, 0) }, func(ctx context.Context) { read(ctx, 1) })(ctx)
	}()
	defer func() { cancel(); <-done }()
	x.shows("2 ranks", "0/2", "1/2", "samples/s")
	x.shows("limited by", "silent")
	g.Kill()
	x.shows("and 1 more: It does not answer", "Readers   0 samples/s")
	start()
	seen := x.shows("!and 1 more", "0/2")
	if strings.Contains(seen, "-1") || strings.Contains(seen, "lots") {
		t.Errorf("after a restart there are odd rates:\n%s", seen)
	}
	x.resize(140, 40)
	x.shows("gap    idle")
	x.resize(60, 24)
	x.shows("waits", "!gap")
	x.press("\x03") // Ctrl-C
	x.exits(0)
	x.restored()
	if out := x.raw.String(); strings.Contains(out, "\x1b[31m") || strings.Contains(out, "\x1b[1m") {
		t.Errorf("the output has colors in spite of NO_COLOR:\n%q", out[max(0, len(out)-300):])
	}
}

// TestTopEndsWithASignal checks that the program exits on a signal and restores the terminal, and
// that its output has colors.
func TestTopEndsWithASignal(t *testing.T) {
	g := serve(t, packed(t, "dir"))
	x := inTerminal(t, 100, 30, nil, "top", g.Admin, "http://"+harness.FreeAddress(t))
	x.shows("connection refused")
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.exits(0)
	x.restored()
	if out := x.raw.String(); !strings.Contains(out, "\x1b[31m") {
		t.Errorf("got no color: %q", out)
	}
}

// TestTop_ShowsNoScreenOfADeadGateway expects only the error, in a terminal too.
func TestTop_ShowsNoScreenOfADeadGateway(t *testing.T) {
	x := inTerminal(t, 100, 30, nil, "top", "http://"+harness.FreeAddress(t))
	x.exits(5)
	if out := x.raw.String(); !strings.Contains(out, "connection refused: start it, or correct the address") || strings.Contains(out, "\x1b") {
		t.Errorf("got %q, want the error alone", out)
	}
}

// TestTop_PrintsOnceInADumbTerminal expects text without sequences.
func TestTop_PrintsOnceInADumbTerminal(t *testing.T) {
	x := inTerminal(t, 100, 30, []string{"TERM=dumb"}, "top", serve(t, packed(t, "dir")).Admin, "--interval", "200ms")
	x.exits(0)
	if out := x.raw.String(); !strings.Contains(out, "Memory ") || strings.Contains(out, "\x1b") {
		t.Errorf("got %q, want a report without sequences", out)
	}
}

// TestTopInAPipe checks that top prints a single screen or document into a pipe, and that its exit
// code reports a gateway that does not respond.
func TestTopInAPipe(t *testing.T) {
	store := packed(t, "dir")
	g := serve(t, store)
	for m := range 5 {
		g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
	}
	text := harness.MustRun(t, store, "top", g.Admin, "--interval", "200ms")
	if !strings.Contains(text, "0/1") || !strings.Contains(text, "Memory ") || strings.Contains(text, "\x1b") {
		t.Errorf("got\n%s", text)
	}
	var report struct {
		Gateways []struct{ State, Version string }
		Ranks    []struct{ Dataset string }
		Totals   struct{ Seconds float64 }
	}
	if err := json.Unmarshal([]byte(harness.MustRun(t, store, "top", g.Admin, "--json", "--interval", "200ms")), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Gateways) != 1 || report.Gateways[0].State != "ready" || report.Gateways[0].Version == "" || len(report.Ranks) != 1 || report.Totals.Seconds <= 0 {
		t.Errorf("got %+v, want a ready gateway, a rank and a rate", report)
	}
	if r := harness.Run(t, store, "top", g.URL, "--once", "--interval", "200ms"); r.Code != 4 || r.Stdout != "" || !strings.Contains(r.Stderr, "admin port") {
		t.Errorf("the data port: got exit code %d and %s%s, want 4 and where to look", r.Code, r.Stdout, r.Stderr)
	}
	if r := harness.Run(t, store, "top", "http://"+harness.FreeAddress(t), "--interval", "1h"); r.Code != 5 || r.Stdout != "" || !strings.Contains(r.Stderr, "connection refused: start it") {
		t.Errorf("nobody there: got exit code %d and %s%s, want 5", r.Code, r.Stdout, r.Stderr)
	}
}
