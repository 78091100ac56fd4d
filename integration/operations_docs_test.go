package integration_test

import (
	"strings"
	"testing"
)

// TestTaskPages runs the commands of the pages about operation and compares their output.
func TestTaskPages(t *testing.T) {
	for name, least := range map[string]int{"docs/operations.md": 30, "docs/prepare-data.md": 5} {
		t.Run(name, func(t *testing.T) {
			page := readText(t, "../"+name)
			commands := consoleCommands(page)
			if len(commands) < least {
				t.Fatalf("got %d commands, want some for each task", len(commands))
			}
			typed := map[string]bool{}
			for _, c := range commands {
				typed["$ "+c.text] = true
			}
			for i, line := range strings.Split(page, "\n") {
				if strings.HasPrefix(line, "$ ") && !typed[line] {
					t.Errorf("line %d: got a command that no test runs: %s", i+1, line)
				}
			}
			startShell(t, t.TempDir()).follow(t, name, commands, freePorts(t, "8080", "8081", "8082", "8083"))
		})
	}
}
