package integration_test

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestInterfacePage types the commands of docs/api.md against the gateway that the README's tour starts, and compares what
// they show.
func TestInterfacePage(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	start := consoleCommands(string(readme))
	ready := slices.IndexFunc(start, func(c command) bool { return strings.Contains(c.text, "/readyz") })
	if ready < 0 {
		t.Fatal("README.md: got no command that waits for the gateway")
	}
	commands := consoleCommands(string(page))
	typed := map[string]bool{}
	for _, c := range commands {
		typed["$ "+c.text] = true
	}
	for i, line := range strings.Split(string(page), "\n") {
		if strings.Contains(line, "curl ") && !typed[line] && !strings.HasPrefix(strings.TrimSpace(line), `"try": `) {
			t.Errorf("docs/api.md:%d: got a command that no test runs: %s", i+1, line)
		}
	}
	_, port, err := net.SplitHostPort(harness.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	sh := startShell(t, t.TempDir())
	sh.follow(t, "README.md", start[:ready+1], port)
	sh.follow(t, "docs/api.md", commands, port)
}
