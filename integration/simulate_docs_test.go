package integration_test

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
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
	startShell(t, t.TempDir()).follow(t, "docs/simulate.md", commands, nil)
}

// TestSimulateReadsTheIndexOfAnyStore predicts the same for one dataset wherever it lies.
func TestSimulateReadsTheIndexOfAnyStore(t *testing.T) {
	var first string
	onEveryStore(t, func(t *testing.T, store *harness.Store, _ map[string]string) {
		got := harness.MustRun(t, store, "simulate", store.Dataset(dataset), "--ranks", "4", "--rate", "3000/s",
			"--cache-size", "16MiB,64MiB", "--store-bandwidth", "100MB/s", "--json")
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, `"ranks"`) {
			t.Errorf("got %.300s, want the same as for the first store: %.300s", got, first)
		}
	})
}
