package node

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// grow adds a sample to a directory and updates its index.
func grow(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), 500), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := build.Run(context.Background(), store, "", build.Options{ChunkSize: 64 << 10, Format: "files", TempDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
}

// rig is a node whose file of datasets a test can change.
type rig struct {
	*Node
	t    testing.TB
	file string
	log  bytes.Buffer
}

// newRig makes a node that serves the datasets in a file with the given lines.
func newRig(t testing.TB, lines string, edit func(*Config)) *rig {
	t.Helper()
	leaks.Check(t)
	r := &rig{t: t, file: filepath.Join(t.TempDir(), "sets.yaml")}
	r.write(lines)
	cfg := &Config{
		CacheSize: 64 << 20, Memory: 1 << 40, Datasets: r.file, Listen: "127.0.0.1:0",
		Log: zerolog.New(zerolog.SyncWriter(&r.log)), DrainTimeout: time.Second, LameDuck: 1, FirstByteTimeout: time.Minute,
	}
	if edit != nil {
		edit(cfg)
	}
	var err error
	if r.Node, err = New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) write(lines string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte("datasets:\n"+lines), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload reloads the node, and returns each change as "name change".
func (r *rig) reload() (changes []string) {
	r.t.Helper()
	all, err := r.Reload(r.t.Context(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	return said(all)
}

func said(all []gateway.Change) (changes []string) {
	for _, c := range all {
		changes = append(changes, c.Name+" "+c.Change)
	}
	return changes
}

// get requests a path of the data port, and returns the status, the generation and the body.
func (r *rig) get(path string) (int, string, string) {
	r.t.Helper()
	w := httptest.NewRecorder()
	q := httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
	q.RemoteAddr = "127.0.0.1:1"
	r.gateway.Handler().ServeHTTP(w, q)
	return w.Code, w.Header().Get("Millrace-Generation"), w.Body.String()
}

// stat returns a metric.
func (r *rig) stat(name string) float64 {
	r.t.Helper()
	for _, s := range r.stats() {
		if s.Name == name {
			return s.Value
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

func batchOf(name string) string { return "/v1/datasets/" + name + "/epochs/0/batches/0" }

// TestReload_AddsReplacesAndRemovesDatasets adds, changes and removes datasets. A file with an
// error changes nothing.
func TestReload_AddsReplacesAndRemovesDatasets(t *testing.T) {
	a, b := dataset(t), dataset(t)
	grow(t, b, "more.txt")
	r := newRig(t, "  a: "+a+"\n", nil)
	defer r.Close()
	r.write("  a: " + a + "\n  b: " + b + "\nmixtures:\n  both: a:1,b:2\n")
	if diff := cmp.Diff([]string{"a none", "b new"}, r.reload()); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"a", "b", "both"} {
		if code, _, body := r.get(batchOf(name)); code != http.StatusOK {
			t.Errorf("%s: got %d %s", name, code, body)
		}
	}
	for lines, want := range map[string]string{
		"  a: " + a + "\n  c: ftp://x\n":               r.file + `:3: dataset "c=ftp://x": scheme "ftp"`,
		"  a: " + a + "\n  c: " + t.TempDir() + "\n":   r.file + ":3: dataset c: open dataset file://",
		"  b: " + b + "\nmixtures:\n  both: a:1,b:2\n": `source "a" is not served`,
		"": "no dataset: at least one is required",
	} {
		r.write(lines)
		failures := r.stat("datasets_reload_failures_total")
		if _, err := r.Reload(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", lines, err, want)
		}
		if code, _, _ := r.get(batchOf("both")); code != http.StatusOK || r.stat("datasets_reload_failures_total") != failures+1 || r.stat("datasets_file_refused") != 1 || r.stat("datasets_open") != 2 {
			t.Errorf("%q: got %d and %v open, want no change, and a failure", lines, code, r.stat("datasets_open"))
		}
	}
	grow(t, a, "more.txt")
	r.write("  a: " + a + "\n")
	if diff := cmp.Diff([]string{"a generation", "b removed"}, r.reload()); diff != "" {
		t.Error(diff)
	}
	if r.stat("datasets_file_refused") != 0 || r.stat("datasets_reloads_total") != 2 {
		t.Errorf("refused %v after %v reloads, want 0 after 2", r.stat("datasets_file_refused"), r.stat("datasets_reloads_total"))
	}
	if _, _, body := r.get("/v1/datasets"); strings.Contains(body, `"name":"b"`) || strings.Contains(body, "both") {
		t.Errorf("got %s, want only a", body)
	}
}

// TestFollow_ServesNewIndexes: a URL without a generation is answered from the new index, and a URL
// with one from the index that it names.
func TestFollow_ServesNewIndexes(t *testing.T) {
	a, broken := dataset(t), dataset(t)
	r := newRig(t, "  a: "+a+"\n  broken: "+broken+"\n", nil)
	defer r.Close()
	_, old, before := r.get(batchOf("a"))
	grow(t, a, "more.txt")
	if err := os.RemoveAll(broken); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.keeper.follow(t.Context())
	}
	_, fresh, _ := r.get(batchOf("a"))
	if fresh == old {
		t.Error("got the previous generation, want the new one")
	}
	if code, got, body := r.get(batchOf("a") + "?generation=" + old); code != http.StatusOK || got != old || body != before {
		t.Errorf("got %d of generation %.12s, want the previous bytes", code, got)
	}
	if got := strings.Count(r.log.String(), "dataset broken: look for a newer index of file://"+broken+": no index here yet"); got != 1 || strings.Contains(r.log.String(), r.file+":") {
		t.Errorf("got %d lines about the other dataset, want one: %s", got, r.log.String())
	}
	if code, _, body := r.get("/v1/datasets/broken"); code != http.StatusOK {
		t.Errorf("got %d %s, want the dataset with a broken pointer unchanged", code, body)
	}
}

// TestReload_DirectoryMadeAgain: the directory of a dataset is removed, copied back and indexed. A
// reload then serves it with its previous generation.
func TestReload_DirectoryMadeAgain(t *testing.T) {
	a := dataset(t)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(a)); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "  a: "+a+"\n", nil)
	defer r.Close()
	_, old, before := r.get(batchOf("a"))
	if err := os.RemoveAll(a); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reload(t.Context(), ""); err == nil || strings.Contains(err.Error(), r.file) || !strings.Contains(err.Error(), "file://"+a) {
		t.Errorf("got %v, want an error that names the directory only", err)
	}
	if err := os.CopyFS(a, os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	r.reload()
	store, err := dirstore.New(a)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rep, err := build.Run(t.Context(), store, "", build.Options{ChunkSize: 64 << 10, Format: "files", TempDir: t.TempDir()})
	if err != nil || rep.Generation != old {
		t.Fatalf("got generation %.12s, %v, want %.12s: the bytes are the same", rep.Generation, err, old)
	}
	r.reload()
	if code, got, body := r.get(batchOf("a")); code != http.StatusOK || got != old || body != before {
		t.Errorf("got %d of generation %.12s, %.300s, want the previous bytes", code, got, body)
	}
}

// hangingStore is a store whose requests never end.
type hangingStore struct{ objstore.Store }

func (hangingStore) Stat(ctx context.Context, _ string) (objstore.Object, error) {
	<-ctx.Done()
	return objstore.Object{}, context.Cause(ctx)
}

// TestFollow_IgnoresHangingStoreOfAnotherDataset: a new index is served while the store of another dataset hangs.
func TestFollow_IgnoresHangingStoreOfAnotherDataset(t *testing.T) {
	a, silent := dataset(t), dataset(t)
	r := newRig(t, "  a: "+a+"\n  silent: "+silent+"\n", nil)
	defer r.Close()
	_, old, _ := r.get(batchOf("a"))
	grow(t, a, "more.txt")
	r.keeper.meant("silent").at.Home = hangingStore{}
	r.keeper.patience = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r.keeper.follow(ctx)
	if _, fresh, _ := r.get(batchOf("a")); fresh == old {
		t.Error("got the previous generation, want the new one")
	}
	if got := r.log.String(); !strings.Contains(got, "dataset silent: its store has not responded within 50ms") {
		t.Errorf("the log does not name the hanging store: %s", got)
	}
	if code, _, body := r.get("/v1/datasets/silent"); code != http.StatusOK {
		t.Errorf("got %d %s, want the dataset with the hanging store unchanged", code, body)
	}
}

// TestKeeper_RemovesOldIndexCopies: opening a newer generation removes the copies of closed generations.
func TestKeeper_RemovesOldIndexCopies(t *testing.T) {
	a, dir := dataset(t), t.TempDir()
	r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.IndexDir = dir })
	defer r.Close()
	copies := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*.index"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	open, long := copies(), time.Now().Add(-copiesStay-time.Hour)
	left := filepath.Join(dir, strings.Repeat("0", 64)+".index") // copy of a closed generation
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(open, left) {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	grow(t, a, "more.txt")
	r.reload()
	if got := copies(); len(open) != 1 || len(got) != 2 || slices.Contains(got, left) || !slices.Contains(got, open[0]) {
		t.Errorf("got copies %v after %v, want those of the open previous generation and of the new one", got, open)
	}
}

// TestKeeper_OpensOlderGenerationsOnDemand: older generations are opened on demand as long as their
// indexes exist.
func TestKeeper_OpensOlderGenerationsOnDemand(t *testing.T) {
	a := dataset(t)
	first := newRig(t, "  a: "+a+"\n", nil)
	_, old, before := first.get(batchOf("a"))
	first.Close()
	grow(t, a, "more.txt")
	r := newRig(t, "  a: "+a+"\n  same: "+a+"\nmixtures:\n  both: a:1,same:1\n", nil)
	defer r.Close()
	if code, got, _ := r.get(batchOf("a") + "?generation=" + strings.Repeat("0", 32)); code != http.StatusNotFound {
		t.Errorf("got %d of generation %.12s, want 404", code, got)
	}
	for _, name := range []string{old[:32], old, old[:32]} { // the first request opens it by the first digits
		if code, got, body := r.get(batchOf("a") + "?generation=" + name); code != http.StatusOK || got != old || body != before {
			t.Errorf("got %d of generation %.12s, want the previous bytes", code, got)
		}
	}
	if got := r.stat("datasets_open"); got != 3 {
		t.Errorf("%v generations are open, want 3", got)
	}
	objects, err := filepath.Glob(filepath.Join(a, ".millrace", "*", "*"+old+"*"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("found %v, %v, want the index of the generation", objects, err)
	}
	for _, o := range objects {
		if err := os.Remove(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"same", "both"} {
		if code, _, body := r.get(batchOf(name) + "?generation=" + old); code != http.StatusNotFound || !strings.Contains(body, "generation_gone") {
			t.Errorf("%s: got %d %s, want 404 generation_gone", name, code, body)
		}
	}
	if code, _, _ := r.get(batchOf("a") + "?generation=" + old); code != http.StatusOK {
		t.Errorf("got %d, want the batch of an open generation", code)
	}
}

// TestReload_DatasetMoves: after a dataset's address changes, the same generation is read from the
// new address.
func TestReload_DatasetMoves(t *testing.T) {
	a, log := dataset(t), t.TempDir()
	r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.LossLog = log })
	defer r.Close()
	_, old, before := r.get(batchOf("a"))
	r.write("  a: {url: " + a + ", links: follow}\n") // the same directory with another option; reports go to the same log as before
	if diff := cmp.Diff([]string{"a none"}, r.reload()); diff != "" {
		t.Error(diff)
	}
	if got := r.keeper.meant("a"); !got.at.Loc.Links {
		t.Error("got the previous place")
	}
	code, got, body := r.get(batchOf("a"))
	if code != http.StatusOK || got != old || body != before {
		t.Errorf("got %d of generation %.12s, want the same bytes", code, got)
	}
}

// TestReload_RejectsDatasetLargerThanMemory: a reload fails for the same datasets as a start does,
// and changes nothing.
func TestReload_RejectsDatasetLargerThanMemory(t *testing.T) {
	a, wide := dataset(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(wide, "wide.bin"), make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	grow(t, wide, "one.txt")
	r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.CacheSize = 16 << 20 })
	defer r.Close()
	inUse := r.main().budget.InUse()
	r.write("  a: " + a + "\n  wide: " + wide + "\n")
	if _, err := r.Reload(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "16 MiB is too small") || !strings.Contains(err.Error(), "largest chunk of wide") {
		t.Errorf("got %v, want an error about too little memory", err)
	}
	if got := r.main().budget.InUse(); got != inUse || r.stat("datasets_open") != 1 {
		t.Errorf("%d bytes in use and %v open, want %d and 1", got, r.stat("datasets_open"), inUse)
	}
	if code, _, _ := r.get(batchOf("a")); code != http.StatusOK {
		t.Errorf("got %d, want the previous dataset", code)
	}
}

// TestReload_OlderGenerationsOfSmallIndexesFit: dozens of small open generations leave memory for a newer one.
func TestReload_OlderGenerationsOfSmallIndexesFit(t *testing.T) {
	a := dataset(t)
	r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.CacheSize = 12 << 20 })
	defer r.Close()
	for i := range 30 {
		grow(t, a, fmt.Sprintf("more-%d.txt", i))
		if diff := cmp.Diff([]string{"a generation"}, r.reload()); diff != "" {
			t.Error(diff)
		}
	}
	if got := r.stat("datasets_open"); got != 31 {
		t.Errorf("got %v generations open, want 31", got)
	}
}

// TestReload_RefusalNamesOlderGenerations: the error names the older generations that use memory,
// and the time when they close.
func TestReload_RefusalNamesOlderGenerations(t *testing.T) {
	a := dataset(t)
	r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.CacheSize = 16 << 20 })
	defer r.Close()
	grow(t, a, "more.txt")
	r.reload()
	if err := os.WriteFile(filepath.Join(a, "wide.bin"), make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	grow(t, a, "one.txt")
	_, err := r.Reload(t.Context(), "")
	if want := "older generations open: 1, each closes a minute after its last use"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestQuota_AppliesToDatasetAddedLater: a quota may be configured before its dataset. The dataset's
// disk cache survives a restart.
func TestQuota_AppliesToDatasetAddedLater(t *testing.T) {
	a, b, disk := dataset(t), dataset(t), filepath.Join(t.TempDir(), "disk")
	quota := func(c *Config) {
		c.DiskCache, c.DiskCacheSize, c.Quota = disk, 8<<20, []Quota{{Dataset: "b", Memory: 16 << 20, Disk: 4 << 20}}
		if faults := c.Complete(); len(faults) > 0 && strings.Contains(fmt.Sprint(faults), "quota") {
			t.Errorf("got %v, want a quota without its dataset accepted", faults)
		}
	}
	for range 2 {
		r := newRig(t, "  a: "+a+"\n", quota)
		r.write("  a: " + a + "\n  b: " + b + "\n")
		r.reload()
		if g := r.keeper.meant("b"); g.division == r.main() || g.division.quota.Dataset != "b" {
			t.Errorf("got %+v, want the division of the quota", g.division.quota)
		}
		r.Close()
		for _, dir := range []string{disk, filepath.Join(disk, "quota-b")} {
			if text, err := os.ReadFile(filepath.Join(dir, "millrace-disk-cache.json")); err != nil || !strings.Contains(string(text), b) {
				t.Errorf("got %s, %v, want the new dataset named", text, err)
			}
		}
	}
}

// TestKeeper_ClosesUnusedGenerations: datasets are added and removed a hundred times. Their
// generations are closed after a while.
func TestKeeper_ClosesUnusedGenerations(t *testing.T) {
	a, b := dataset(t), dataset(t)
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, "  a: "+a+"\n", nil)
		defer r.Close()
		inUse := r.main().budget.InUse()
		var names []string
		for i := range 100 {
			name := fmt.Sprintf("b%d", i%7)
			r.write("  a: " + a + "\n  " + name + ": " + b + "\nmixtures:\n  m" + name + ": a:1," + name + ":1\n")
			names = append(names, strings.Join(r.reload(), " "))
			if code, _, body := r.get(batchOf("m" + name)); code != http.StatusOK {
				t.Fatalf("got %d %s", code, body)
			}
			time.Sleep(5 * time.Second)
		}
		r.write("  a: " + a + "\n")
		r.reload()
		time.Sleep(15 * time.Minute)
		if n, places := r.stat("datasets_open"), len(r.keeper.places); n != 1 || places != 1 {
			t.Errorf("%v generations at %d places are open, want 1: %v", n, places, names)
		}
		kept := r.main().path.Stats()
		if got := r.main().budget.InUse() - kept.CachedBytes - kept.TableBytes; got > inUse+64<<10 {
			t.Errorf("%d bytes are reserved in addition to chunks and tables, want about %d", got, inUse)
		}
		if code, _, _ := r.get(batchOf("a")); code != http.StatusOK {
			t.Errorf("got %d, want the dataset that stayed", code)
		}
	})
}

// TestReload_KeepsBytesOfConcurrentReaders: readers of an unchanged dataset get the same bytes during reloads.
func TestReload_KeepsBytesOfConcurrentReaders(t *testing.T) {
	a, b := dataset(t), dataset(t)
	r := newRig(t, "  a: "+a+"\n", nil)
	defer r.Close()
	_, old, before := r.get(batchOf("a"))
	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if code, _, body := r.get(batchOf("a") + "?generation=" + old); code != http.StatusOK || body != before {
					t.Errorf("got %d and %d bytes, want the same as before", code, len(body))
					return
				}
				_ = r.stats()
				_ = r.readers()
			}
		})
	}
	for i := range 30 {
		if i%3 == 0 {
			grow(t, a, fmt.Sprintf("more%d.txt", i))
		}
		r.write(fmt.Sprintf("  a: %s\n  b%d: %s\n", a, i%2, b))
		r.reload()
	}
	end()
	readers.Wait()
}

// TestRun_FollowsFilePointersAndSignal: a running node reacts to changes of the file and of a pointer, and to a signal.
func TestRun_FollowsFilePointersAndSignal(t *testing.T) {
	a, b := dataset(t), dataset(t)
	bubble.Test(t, func(t *testing.T) {
		hangUp := make(chan os.Signal, 1)
		r := newRig(t, "  a: "+a+"\n", func(c *Config) { c.Follow, c.HangUp = 30*time.Second, hangUp })
		defer r.Close()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.keeper.run(ctx, ctx) }()
		r.write("  a: " + a + "\n  b: " + b + "\n")
		time.Sleep(2 * time.Second)
		if r.keeper.meant("b") == nil {
			t.Error("the change of the file had no effect")
		}
		old := r.keeper.meant("a")
		grow(t, a, "more.txt")
		time.Sleep(10 * time.Second)
		if r.keeper.meant("a") != old {
			t.Error("the pointer was read too soon")
		}
		time.Sleep(30 * time.Second)
		if r.keeper.meant("a") == old {
			t.Error("the pointer was not read")
		}
		grow(t, b, "more.txt")
		old = r.keeper.meant("b")
		hangUp <- os.Interrupt
		time.Sleep(time.Millisecond)
		if r.keeper.meant("b") == old {
			t.Error("the signal had no effect")
		}
		r.write("  a: " + a + "\n  c: " + filepath.Join(b, "none") + "\n") // this dataset does not exist yet
		time.Sleep(10 * time.Second)
		if r.stat("datasets_reload_failures_total") != 1 || r.stat("datasets_file_refused") != 1 {
			t.Errorf("got %v failures in 10 s, want one", r.stat("datasets_reload_failures_total"))
		}
		if err := os.Symlink(b, filepath.Join(b, "none")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(openAgain)
		if r.keeper.meant("c") == nil || r.stat("datasets_file_refused") != 0 {
			t.Error("the dataset was not tried again")
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestReload_FlagsKeepTheirNames: the dataset of the flags remains the default, and the file cannot
// redefine its name.
func TestReload_FlagsKeepTheirNames(t *testing.T) {
	a, b := dataset(t), dataset(t)
	r := newRig(t, "  b: "+b+"\n", func(c *Config) { c.Locations = []location.Location{{Name: "a", Dir: a}} })
	defer r.Close()
	if diff := cmp.Diff([]string{"a none", "b none"}, r.reload()); diff != "" {
		t.Error(diff)
	}
	r.write("  a: " + b + "\n")
	if _, err := r.Reload(t.Context(), ""); err == nil || !strings.Contains(err.Error(), r.file+":2: dataset a: a flag has this name already") {
		t.Errorf("got %v, want an error about the flag's name", err)
	}
	r.write("")
	if diff := cmp.Diff([]string{"a none", "b removed"}, r.reload()); diff != "" {
		t.Error(diff)
	}
}
