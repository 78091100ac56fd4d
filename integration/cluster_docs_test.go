package integration_test

import (
	"os"
	"strings"
	"testing"
)

// TestClusterGuide runs the commands of docs/cluster.md, which start a cluster of three gateways
// and kill one of them.
func TestClusterGuide(t *testing.T) {
	page, err := os.ReadFile("../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := consoleCommands(string(page))
	if len(commands) < 15 {
		t.Fatalf("docs/cluster.md: got %d commands, want a tour", len(commands))
	}
	typed := map[string]bool{}
	for _, c := range commands {
		typed["$ "+c.text] = true
	}
	for i, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "$ ") && !typed[line] {
			t.Errorf("docs/cluster.md:%d: got a command that no test runs: %s", i+1, line)
		}
	}
	startShell(t, t.TempDir()).follow(t, "docs/cluster.md", commands, freePorts(t, "8080", "8081", "8082", "7946", "7956", "7966"))
}
