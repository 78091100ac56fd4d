package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// command is one command line of a page, and its expected output.
type command struct {
	line int
	text string
	want []string
}

// consoleCommands returns the commands of a page's console blocks: lines that begin with
// "$ ", each followed by its output.
func consoleCommands(page string) []command {
	var all []command
	inside := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			all = append(all, command{line: i + 1, text: line[2:]})
		case len(all) > 0:
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	return all
}

// shows reports whether output equals the output on the page. An ellipsis in a line matches any
// text; a line with only an ellipsis matches any lines.
func shows(want, output []string) bool {
	if len(want) == 0 {
		return len(output) == 0
	}
	if want[0] == "..." {
		for skip := range len(output) + 1 {
			if shows(want[1:], output[skip:]) {
				return true
			}
		}
		return false
	}
	return len(output) > 0 && matches(want[0], output[0]) && shows(want[1:], output[1:])
}

func matches(want, line string) bool {
	parts := strings.Split(want, "...")
	if len(parts) == 1 {
		return want == line
	}
	rest, ok := strings.CutPrefix(line, parts[0])
	if !ok || !strings.HasSuffix(rest, parts[len(parts)-1]) {
		return false
	}
	for _, part := range parts[1:] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

func TestShowsComparesOutput(t *testing.T) {
	for _, c := range []struct {
		want, output string
		ok           bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a...", "abc", true},
		{"a...c", "abc", true},
		{"a...d", "abc", false},
		{"...", "x\ny", true},
		{"a\n...", "a", true},
		{"a\n...\nz", "a\nb\nz", true},
		{"a", "a\nb", false},
	} {
		if got := shows(strings.Split(c.want, "\n"), strings.Split(c.output, "\n")); got != c.ok {
			t.Errorf("%q against %q: got %v, want %v", c.want, c.output, got, c.ok)
		}
	}
}

// shell is one bash process that runs line after line, as in a terminal.
type shell struct {
	in  io.Writer
	out *bufio.Scanner
}

func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = dir
	home := t.TempDir()
	cmd.Env = []string{
		"PATH=" + filepath.Dir(harness.Binary(t)) + ":" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C",
		"NO_PROXY=127.0.0.1",
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Kills the jobs that the page started, which are in bash's process group.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		in.Close()
		_ = cmd.Wait()
	})
	// If the test process is killed, bash reads the end of its input and kills its jobs.
	fmt.Fprintln(in, "trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT")
	return &shell{in: in, out: bufio.NewScanner(out)}
}

const endMark = "--end-of-command--"

// run runs one line and returns its output and its exit status.
func (s *shell) run(text string) (output []string, status string) {
	fmt.Fprintf(s.in, "%s\necho \"%s$?\"\n", text, endMark)
	for s.out.Scan() {
		if rest, ok := strings.CutPrefix(s.out.Text(), endMark); ok {
			return output, rest
		}
		output = append(output, s.out.Text())
	}
	return output, "none: the shell has ended"
}

// follow runs the commands of a page and compares the output. ports are pairs of a port on the page
// and a free port.
func (s *shell) follow(t *testing.T, page string, commands []command, ports []string) {
	t.Helper()
	free := strings.NewReplacer(ports...)
	for _, c := range commands {
		output, status := s.run(free.Replace(c.text))
		if status != "0" {
			t.Fatalf("%s:%d: %s\nexit status %s\n%s", page, c.line, c.text, status, strings.Join(output, "\n"))
		}
		if !shows(c.want, output) {
			t.Fatalf("%s:%d: %s\ngot:\n%s\nwant:\n%s", page, c.line, c.text, strings.Join(output, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestQuickstart runs the commands of docs/quickstart.md and compares the output.
func TestQuickstart(t *testing.T) {
	commands := consoleCommands(readText(t, "../docs/quickstart.md"))
	if len(commands) < 20 {
		t.Fatalf("docs/quickstart.md: got %d commands, want some for each step", len(commands))
	}
	startShell(t, t.TempDir()).follow(t, "docs/quickstart.md", commands, freePorts(t, "8080", "8083"))
}

// freePorts pairs the ports that a page names with free ones.
func freePorts(t *testing.T, named ...string) (pairs []string) {
	t.Helper()
	for i, address := range harness.FreeAddresses(t, len(named)) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, named[i], port)
	}
	return pairs
}
