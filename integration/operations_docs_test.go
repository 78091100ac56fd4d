package integration_test

import (
	"strings"
	"testing"
)

// TestOperationsPage types the tasks of docs/operations.md one after another and compares what they show.
func TestOperationsPage(t *testing.T) {
	page := readText(t, "../docs/operations.md")
	commands := consoleCommands(page)
	if len(commands) < 30 {
		t.Fatalf("docs/operations.md: got %d commands, want some for each task", len(commands))
	}
	typed := map[string]bool{}
	for _, c := range commands {
		typed["$ "+c.text] = true
	}
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "$ ") && !typed[line] {
			t.Errorf("docs/operations.md:%d: got a command that no test runs: %s", i+1, line)
		}
	}
	startShell(t, t.TempDir()).follow(t, "docs/operations.md", commands, freePorts(t, "8080", "8081", "8082", "8083"))
}
