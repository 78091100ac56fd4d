package integration_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestSimulatePages runs the commands of the pages about millrace simulate and compares the output.
func TestSimulatePages(t *testing.T) {
	for _, name := range []string{"docs/simulate.md", "docs/sizing.md"} {
		t.Run(name, func(t *testing.T) {
			// Without -q, slow machines print progress.
			commands := consoleCommands(strings.ReplaceAll(readText(t, "../"+name), "$ millrace simulate ", "$ millrace simulate -q "))
			if len(commands) < 3 {
				t.Fatalf("got %d commands, want one for each question", len(commands))
			}
			dir := t.TempDir()
			var texts strings.Builder // their lengths are log-logistic
			for i := range 4000 {
				quantile := (float64(i*7919%4000) + .5) / 4000
				fmt.Fprintf(&texts, "{\"text\": %q}\n", strings.Repeat("word ", 1+int(50*math.Cbrt(quantile/(1-quantile)))))
			}
			sh := startShell(t, dir)
			for name, lines := range map[string]string{"imagenet": strings.Repeat("{}\n", 1000), "texts": texts.String()} {
				if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "a.jsonl"), []byte(lines), 0o644)); err != nil {
					t.Fatal(err)
				}
				if output, status := sh.run("millrace index -q " + name + " --batch-size 64"); status != "0" {
					t.Fatalf("index: %s", output)
				}
			}
			sh.follow(t, name, commands, nil)
		})
	}
}

// TestSimulateReadsTheIndexOfAnyStore checks that the prediction for a dataset is the same in every
// store.
func TestSimulateReadsTheIndexOfAnyStore(t *testing.T) {
	var first string
	onEveryStore(t, func(t *testing.T, store *harness.Store, _ map[string]string) {
		got := harness.MustRun(t, store, "simulate", store.Dataset(dataset), "--world-size", "4", "--rate", "3000/s",
			"--cache-size", "16MiB,64MiB", "--store-bandwidth", "100MB/s", "--json")
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, `"ranks"`) {
			t.Errorf("got %.300s, want the same as for the first store: %.300s", got, first)
		}
	})
}
