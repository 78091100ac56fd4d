package integration_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// warmed is the output of millrace warm.
type warmed struct {
	Next, Samples, Chunks, Bytes uint64
	Full, Done                   bool
}

func warm(t *testing.T, store *harness.Store, g *harness.Gateway, args ...string) (w warmed) {
	t.Helper()
	out := harness.MustRun(t, store, append([]string{"warm", g.URL, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		t.Fatalf("warm: %v: %s", err, out)
	}
	return w
}

// TestWarm fills a gateway before a job starts. The job then never waits for the store: the gateway
// serves from memory and, after a restart, only from disk. Warming again reads nothing.
func TestWarm(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store *harness.Store, _ map[string]string) {
		disk := t.TempDir()
		args := []string{"--disk-cache", disk, "--disk-cache-size", "64MiB", "--lame-duck", "0s"}
		g := serve(t, store, args...)
		reads := func() float64 { return g.Metric(t, "millrace_store_reads_total", "") }
		epoch := func(n string) {
			t.Helper()
			before := reads()
			if out := harness.MustRun(t, store, "fetch", g.URL, "--epoch", n, "--batch-size", "64"); !strings.Contains(out, "exactly once") {
				t.Errorf("epoch %s: got %s", n, out)
			}
			if got := reads() - before; got != 0 {
				t.Errorf("epoch %s: got %v reads of the store after it was warmed, want none", n, got)
			}
		}
		first := warm(t, store, g, "--epoch", "1")
		if !first.Done || first.Next != uint64(sampleCount()) || first.Chunks == 0 || first.Bytes == 0 {
			t.Errorf("got %+v, want the whole epoch, and some chunks brought", first)
		}
		if again := warm(t, store, g, "--epoch", "1"); !again.Done || again.Chunks != 0 {
			t.Errorf("got %+v the second time, want nothing left to bring", again)
		}
		epoch("1")
		epoch("2")
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		g = serve(t, store, args...)
		epoch("3")
	})
}
