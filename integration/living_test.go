package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
)

// yard is a store with changing datasets, and a gateway that serves the datasets listed in a file.
type yard struct {
	t       *testing.T
	store   *harness.Store
	file    string
	spare   []string                     // shard files that no dataset contains yet
	content map[string]map[string]string // packed files of each dataset, and of the spare shards (see harness.Files)
	log     *history.Log
	*harness.Gateway
}

// chunkSize is small, so that the datasets of a yard have many chunks.
const chunkSize = "16KiB"

// later is the key of the spare shards in yard.content, and the prefix of their names in a dataset.
const later = "later-"

// newYard packs the datasets photos, texts and mails into a directory, and spare shards. It starts
// no gateway.
func newYard(t *testing.T) *yard {
	t.Helper()
	return newYardIn(t, "dir", 3000, 12)
}

// newYardIn is newYard with a given kind of store, a maximum sample size and a minimum number of
// spare shards.
func newYardIn(t *testing.T, kind string, size, spare int) *yard {
	t.Helper()
	y := &yard{t: t, store: harness.Open(t, kind), file: filepath.Join(t.TempDir(), "sets.yaml"), content: map[string]map[string]string{}, log: harness.Record(t, nil)}
	for i, name := range []string{"photos", "texts", "mails"} {
		files, content := harness.Files(t, 120+20*i, size)
		harness.Pack(t, y.store, files, name, "--shard-size", fmt.Sprint(20*size), "--chunk-size", chunkSize)
		y.content[name] = content
	}
	aside := harness.Open(t, "dir")
	files, content := harness.Files(t, 5*spare, size)
	harness.Pack(t, aside, files, "later", "--shard-size", fmt.Sprint(4*size))
	y.content[later] = content
	var err error
	if y.spare, err = filepath.Glob(filepath.Join(aside.Path, "later", "*.tar")); err != nil || len(y.spare) < spare {
		t.Fatalf("found %d shards, %v, want %d or more", len(y.spare), err, spare)
	}
	return y
}

// names writes a datasets file and renames it into place, as the gateway requires.
func (y *yard) names(lines ...string) {
	y.t.Helper()
	text := "datasets:\n"
	for _, line := range lines {
		if !strings.Contains(line, ":") {
			line = "  " + line + ": " + y.store.Dataset(line)
		}
		text += line + "\n"
	}
	if err := os.WriteFile(y.file+".new", []byte(text), 0o600); err != nil {
		y.t.Fatal(err)
	}
	if err := os.Rename(y.file+".new", y.file); err != nil {
		y.t.Fatal(err)
	}
}

// start starts the gateway, or stops the running one and starts another.
func (y *yard) start(args ...string) {
	y.t.Helper()
	if y.Gateway != nil {
		if err := y.Stop(); err != nil {
			y.t.Error(err)
		}
	}
	y.Gateway = harness.Serve(y.t, y.store, "photos", append([]string{"--datasets", y.file, "--cache-size", "64MiB", "--lame-duck", "0s", "--log-level", "warn"}, args...)...)
}

// grow adds a shard to a dataset and indexes it.
func (y *yard) grow(name string) {
	y.t.Helper()
	y.add(name)
	harness.MustRun(y.t, y.store, "index", y.store.Dataset(name), "--chunk-size", chunkSize)
}

// add adds a shard to a dataset.
func (y *yard) add(name string) {
	y.t.Helper()
	if len(y.spare) == 0 {
		y.t.Fatal("no shard is left")
	}
	text, err := os.ReadFile(y.spare[0])
	if err != nil {
		y.t.Fatal(err)
	}
	replace(y.t, y.store, name+"/"+later+filepath.Base(y.spare[0]), text)
	y.spare = y.spare[1:]
}

// reload requests a reload, and returns the status and the response without its digests.
func (y *yard) reload() (int, string) {
	y.t.Helper()
	r, err := harness.Do(y.t.Context(), http.MethodPost, y.Admin+"/v1/reload")
	if err != nil {
		y.t.Fatal(err)
	}
	return r.Status, regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(strings.TrimSpace(string(r.Body)), "...")
}

// described is a gateway's description of a dataset.
type described struct {
	Generation  string
	Samples     uint64
	Generations []struct{ Generation string }
}

func (y *yard) describe(name string) (d described) {
	y.t.Helper()
	if err := json.Unmarshal(y.MustGet(y.t, "/v1/datasets/"+name).Body, &d); err != nil {
		y.t.Fatal(err)
	}
	return d
}

// list returns the names of all served datasets.
func (y *yard) list() string {
	y.t.Helper()
	var all struct{ Datasets []struct{ Name string } }
	if err := json.Unmarshal(y.MustGet(y.t, "/v1/datasets").Body, &all); err != nil {
		y.t.Fatal(err)
	}
	var names []string
	for _, d := range all.Datasets {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

// until waits for a condition.
func (y *yard) until(what string, limit time.Duration, holds func() bool) {
	y.t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > limit {
			y.t.Fatalf("%s: not within %v; the log ends with %s", what, limit, y.Log())
		}
	}
}

// epoch reads an epoch of a dataset with two ranks, and checks that each sample is delivered once.
func epoch(ctx context.Context, log *history.Log, url, name, generation string, n uint64) (client.EpochReport, error) {
	c, err := client.New(client.Config{Gateways: []string{url}, Dataset: name, HTTP: log.Client("client")})
	if err != nil {
		return client.EpochReport{}, err
	}
	defer c.CloseIdle()
	r, err := c.ReadEpoch(ctx, client.Epoch{Options: client.Options{Epoch: n, WorldSize: 2, BatchSize: 16, Generation: generation}, AllRanks: true})
	if err == nil && (!r.Proof.Whole || generation != "" && r.Generation != generation) {
		err = fmt.Errorf("epoch %d of %s: %+v, want each sample once of generation %.12s", n, name, r, generation)
	}
	return r, err
}

// TestDatasetsChangeUnderReaders adds and removes datasets, grows one, and puts errors into the
// file, while jobs read. Each epoch of each job delivers every sample of one generation once.
func TestDatasetsChangeUnderReaders(t *testing.T) {
	rounds := 6
	if long() {
		rounds = 200
	}
	y := newYard(t)
	y.names("texts")
	y.start("--follow", "1s")
	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var epochs [4]atomic.Int64
	first := y.describe("texts").Generation
	jobs := []struct{ name, generation string }{{"photos", ""}, {"texts", ""}, {"texts", first}, {"mails", ""}}
	for i, job := range jobs {
		readers.Go(func() {
			for n := uint64(0); ctx.Err() == nil; n++ {
				_, err := epoch(ctx, y.log, y.URL, job.name, job.generation, n)
				if ctx.Err() != nil {
					return
				}
				if job.name == "mails" && err != nil && strings.Contains(err.Error(), "is not served") {
					time.Sleep(10 * time.Millisecond) // it is not served now
					continue
				}
				if err != nil {
					t.Errorf("job %d: %v", i, err)
					return
				}
				epochs[i].Add(1)
			}
		})
	}
	for round := range rounds {
		y.names("texts", "mails")
		y.until("mails are served", 20*time.Second, func() bool { return y.list() == "photos texts mails" })
		if round < 2 {
			before := y.describe("texts")
			y.grow("texts")
			y.until("texts have grown", 20*time.Second, func() bool { return y.describe("texts").Samples > before.Samples })
		}
		y.names("texts", "  mails: [")
		failures := y.Metric(t, "millrace_datasets_reload_failures_total", "")
		y.HangUp()
		y.until("the fault is noticed", 20*time.Second, func() bool {
			return y.Metric(t, "millrace_datasets_reload_failures_total", "") > failures
		})
		if got := y.list(); got != "photos texts mails" || y.Metric(t, "millrace_datasets_file_refused", "") != 1 {
			t.Errorf("got %s with a faulty file, want what was served before", got)
		}
		y.names("texts", "mails", "  gone: "+y.store.Root+"/gone")
		if status, body := y.reload(); status != http.StatusConflict || !strings.Contains(body, "sets.yaml:4: dataset gone: ") {
			t.Errorf("got %d %s, want 409 with line and dataset", status, body)
		}
		y.until("the log names the dataset", 20*time.Second, func() bool { return strings.Contains(y.Log(), "sets.yaml:4: dataset gone: ") })
		y.names("texts")
		y.HangUp()
		y.until("mails are not listed", 20*time.Second, func() bool { return y.list() == "photos texts" })
	}
	for i := range jobs {
		y.until(fmt.Sprintf("job %d reads two epochs", i), time.Minute, func() bool { return epochs[i].Load() >= 2 || t.Failed() })
	}
	end()
	readers.Wait()
}

// TestReload checks that POST /v1/reload responds as docs/operations.md describes, and that removed
// datasets are still served to clients that use them.
func TestReload(t *testing.T) {
	y := newYard(t)
	y.names("mails")
	y.start()
	old := y.describe("photos").Generation
	y.grow("photos")
	y.names("texts")
	y.until("the file is read", 20*time.Second, func() bool { return y.list() == "photos texts" })
	if y.describe("photos").Generation != old {
		t.Error("got another generation without --follow, want that of before")
	}
	y.names("mails")
	if status, body := y.reload(); status != http.StatusOK || !strings.Contains(body, `"name":"mails"`) {
		t.Errorf("got %d %s", status, body)
	}
	y.grow("photos")
	y.names("texts")
	status, body := y.reload()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || !strings.Contains(string(page), "```json\n"+body+"\n```\n") {
		t.Errorf("got %d\n%s\nwhich docs/operations.md does not show", status, body)
	}
	if d := y.describe("photos"); d.Generation == old || len(d.Generations) < 2 {
		t.Errorf("got %+v, want a new generation beside the old one", d)
	}
	for name, generation := range map[string]string{"photos": old, "mails": ""} {
		if _, err := epoch(t.Context(), y.log, y.URL, name, generation, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGenerationsAreKeptForJobs checks that after a restart a job continues with its generation
// until the index of that generation is removed.
func TestGenerationsAreKeptForJobs(t *testing.T) {
	y := newYard(t)
	y.names()
	y.start()
	old := y.describe("photos")
	y.MustGet(t, "/v1/datasets/photos/epochs/3/batches/1?batch_size=16&generation="+old.Generation)
	y.grow("photos")
	y.start()
	if d := y.describe("photos"); d.Generation == old.Generation || d.Samples <= old.Samples {
		t.Errorf("got %+v, want the data that were added", d)
	}
	y.MustGet(t, "/v1/datasets/photos/epochs/3/batches/1?batch_size=16&generation="+old.Generation) // the history checks the response
	if r, err := epoch(t.Context(), y.log, y.URL, "photos", old.Generation, 1); err != nil || r.Samples != old.Samples {
		t.Errorf("got %d samples, %v, want %d", r.Samples, err, old.Samples)
	}
	objects, err := filepath.Glob(filepath.Join(y.store.Path, "photos", ".millrace", "*", old.Generation+"*"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("found %v, %v, want the index", objects, err)
	}
	for _, o := range objects {
		if err := os.Remove(o); err != nil {
			t.Fatal(err)
		}
	}
	y.start()
	if r := y.Get(t, "/v1/datasets/photos/epochs/3/batches/1?batch_size=16&generation="+old.Generation); r.Status != http.StatusNotFound || !strings.Contains(string(r.Body), "generation_gone") {
		t.Errorf("got %d %s, want 404 generation_gone", r.Status, r.Body)
	}
}

// holds counts the open files, goroutines and bytes of memory of a process.
type holds struct {
	files, routines int
	bytes           int64
}

// within reports whether a process holds no more than before, except for a few files and goroutines
// and spread bytes.
func (h holds) within(before holds, spread int64) bool {
	return h.files <= before.files+4 && h.routines <= before.routines+4 && h.bytes <= before.bytes+spread
}

func heldBy(t *testing.T, g *harness.Gateway) (h holds) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Pid()))
	if err != nil {
		t.Skipf("this system does not list open files: %v", err)
	}
	h.files = len(files)
	r, err := g.TryAdmin(t.Context(), "/debug/pprof/goroutine?debug=1")
	if err == nil {
		_, err = fmt.Sscanf(string(r.Body), "goroutine profile: total %d", &h.routines)
	}
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, err = fmt.Sscanf(rest, "%d", &h.bytes)
			h.bytes <<= 10
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestReloadsLeaveNothing checks that after many reloads with changing datasets a process holds as
// many files, goroutines and bytes as after a few reloads.
func TestReloadsLeaveNothing(t *testing.T) {
	t.Parallel()                              // most of the time it waits for a minute
	few, many, spread := 0, 30, int64(64<<20) // with few = 0 the memory of the first epochs counts as growth
	if long() {
		few, many, spread = 50, 1000, 24<<20
	}
	y := newYard(t)
	y.names("texts")
	y.start()
	change := func(from, n int) {
		for i := from; i < from+n; i++ {
			name := fmt.Sprintf("set%d", i%9)
			lines := []string{"texts", "  " + name + ": " + y.store.Dataset("mails")}
			if i%2 == 0 {
				lines = append(lines, "mixtures:", "  both: texts:1,"+name+":1")
			}
			y.names(lines...)
			if status, body := y.reload(); status != http.StatusOK {
				t.Fatalf("reload %d: got %d %s", i, status, body)
			}
			if _, err := epoch(t.Context(), y.log, y.URL, name, "", 0); err != nil {
				t.Fatalf("reload %d: %v", i, err)
			}
		}
	}
	settled := func() holds {
		y.names("texts")
		if status, body := y.reload(); status != http.StatusOK {
			t.Fatalf("got %d %s", status, body)
		}
		y.until("all is closed", 4*time.Minute, func() bool { return y.Metric(t, "millrace_datasets_open", "") == 2 })
		http.DefaultClient.CloseIdleConnections()
		time.Sleep(2 * time.Second)
		return heldBy(t, y.Gateway)
	}
	change(0, few)
	before := settled()
	change(few, many)
	after := settled()
	t.Logf("after %d reloads %+v, after %d more %+v", few, before, many, after)
	if !after.within(before, spread) {
		t.Errorf("after %d reloads %+v, after %d more %+v, want the same", few, before, many, after)
	}
}
