package integration_test

import (
	"slices"
	"strings"
	"testing"
)

// TestInterfacePages runs the commands of the pages about HTTP in a shell, against the quickstart's
// gateway, and compares the output.
func TestInterfacePages(t *testing.T) {
	for _, name := range []string{
		"docs/api.md", "docs/answers.md", "docs/clients.md", "docs/costs.md", "docs/importance.md", "docs/mixtures.md", "docs/page.md", "docs/security.md", "docs/teams.md", "docs/troubleshooting.md",
	} {
		t.Run(name, func(t *testing.T) { followPage(t, name) })
	}
}

func followPage(t *testing.T, name string) {
	t.Helper()
	page := readText(t, "../"+name)
	start := consoleCommands(readText(t, "../docs/quickstart.md"))
	ready := slices.IndexFunc(start, func(c command) bool { return strings.Contains(c.text, "/readyz") })
	if ready < 0 {
		t.Fatal("docs/quickstart.md: got no command that waits for the gateway")
	}
	commands := consoleCommands(page)
	typed := map[string]bool{}
	for _, c := range commands {
		typed["$ "+c.text] = true
	}
	for i, line := range strings.Split(page, "\n") {
		if strings.Contains(line, "curl ") && !typed[line] && !strings.HasPrefix(strings.TrimSpace(line), `"try": `) {
			t.Errorf("%s:%d: got a command that no test runs: %s", name, i+1, line)
		}
	}
	port := freePorts(t, "8080", "8081")
	sh := startShell(t, t.TempDir())
	sh.follow(t, "docs/quickstart.md", start[:ready+1], port)
	sh.follow(t, name, commands, port)
}
