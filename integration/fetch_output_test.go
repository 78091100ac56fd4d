package integration_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// large serves 24 batches of some MiB each, which take a while to write.
func large(t *testing.T) (*harness.Store, *harness.Gateway) {
	t.Helper()
	store := harness.Open(t, "dir")
	files, _ := harness.Files(t, 240, 600<<10)
	harness.Pack(t, store, files, dataset, "--batch-size", "10")
	return store, serve(t, store)
}

// batchFiles returns the files of a batch in a directory.
func batchFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "batch-*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(b)
	}
	return all
}

// bodiesOf starts a proxy in front of a gateway. The proxy counts requests for the bodies of
// batches.
func bodiesOf(t *testing.T, gateway string) (address string, bodies *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	bodies = new(atomic.Int64)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/batch/") {
			bodies.Add(1)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	return door.URL, bodies
}

// writes reports whether a batch has been written to a directory since the given time.
func writes(t *testing.T, dir string, since time.Time) bool {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".batch-*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(left, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.ModTime().After(since)
	})
}

// TestKilledFetchLeavesWholeFiles repeatedly kills `millrace fetch --output` while it writes a
// batch. Each file with the name of a batch is complete, and the last run fetches only the missing
// ones.
func TestKilledFetchLeavesWholeFiles(t *testing.T) {
	store, g := large(t)
	whole := t.TempDir()
	harness.MustRun(t, store, "fetch", g.URL, "--output", whole)
	want, dir := batchFiles(t, whole), t.TempDir()
	if len(want) != 24 {
		t.Fatalf("got %d batches, want 24", len(want))
	}
	killed := 0
	for round := 0; round < 40 && len(batchFiles(t, dir)) < 20; round++ {
		run := harness.Start(t, "fetch", harness.Binary(t), []string{"HOME=" + t.TempDir()}, "fetch", g.URL, "--output", dir, "--parallel", "2")
		begun := time.Now()
		for ended := false; !ended && !writes(t, dir, begun); {
			select {
			case <-run.Ended():
				ended = true
			case <-time.After(time.Millisecond):
			}
		}
		run.Kill()
		killed++
		for name, content := range batchFiles(t, dir) {
			if content != want[name] {
				t.Fatalf("killed %d times: got %d bytes in %s, want its %d", killed, len(content), name, len(want[name]))
			}
		}
	}
	have := len(batchFiles(t, dir))
	// Use a separate proxy: the requests of a killed fetch may still arrive at the gateway.
	address, bodies := bodiesOf(t, g.URL)
	var rep struct {
		Batches int
		Proved  string
		Reused  struct{ Batches int }
	}
	if err := json.Unmarshal([]byte(harness.MustRun(t, store, "fetch", address, "--output", dir, "--json")), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Reused.Batches != have || rep.Batches != 24 || bodies.Load() != int64(24-have) || rep.Proved != "every sample came exactly once" {
		t.Errorf("after %d kills with %d batches there: got %+v and %d bodies, want the missing ones alone", killed, have, rep, bodies.Load())
	}
	if got := batchFiles(t, dir); !maps.Equal(got, want) {
		t.Errorf("got %q, want the files of a run that nobody killed", slices.Sorted(maps.Keys(got)))
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".batch-*")); err != nil || len(left) > 0 {
		t.Errorf("got %q left over, %v, want none", left, err)
	}
	t.Logf("%d kills, %d batches were there before the last run", killed, have)
}

// TestFetchOntoAFullDisk checks that the error names the file and the remedy, that no partial file
// remains, and that the same command resumes when there is more space.
func TestFetchOntoAFullDisk(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("this machine mounts no file system for a test: ", err)
	}
	_, g := large(t)
	script := `mount -t tmpfs -o size=20m tmpfs "$0" || exit 77
"$@" 2>"$0.err"; echo "$?"
ls -A "$0"
mount -o remount,size=400m "$0" && "$@" --json; echo "$?"
ls -A "$0"`
	dir := filepath.Join(t.TempDir(), "batches")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(unshare, "-rm", "sh", "-c", script, dir, harness.Binary(t), "fetch", g.URL, "--output", dir)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("this machine mounts no file system for a test: %v", err)
	}
	said, err := os.ReadFile(dir + ".err")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"write batch-0000", "no space for its ", dir, "run the same command again to resume", "no space left on device"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("full: got %q, want %q in it", said, want)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	brace := slices.Index(lines, "{")
	if lines[0] != "1" || brace < 2 || brace > 5 || strings.Contains(strings.Join(lines[:brace], " "), ".part-") {
		t.Errorf("full: got %q, want exit code 1 and the whole batches that there was room for", lines)
	}
	text := string(out)
	if !strings.Contains(text, `"proved": "every sample came exactly once"`) || strings.Count(text[strings.Index(text, "}\n"):], "batch-0000") != 24 {
		t.Errorf("with more room: got %s\nwant all 24 batches", text)
	}
}
