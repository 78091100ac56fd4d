package integration_test

import (
	"os"
	"testing"
)

// TestSimulatePage types the commands of docs/simulate.md and compares what they show.
func TestSimulatePage(t *testing.T) {
	page, err := os.ReadFile("../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := consoleCommands(string(page))
	if len(commands) < 3 {
		t.Fatalf("docs/simulate.md: got %d commands, want one for each question", len(commands))
	}
	startShell(t, t.TempDir()).follow(t, "docs/simulate.md", commands, "8080")
}
