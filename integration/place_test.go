package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// place creates a file and its parent directories.
func place(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tool runs an installed program.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// runs packs the output of two runs of img2dataset with GNU tar. Each run numbers its samples from
// 0.
func runs(t *testing.T, dir string) {
	t.Helper()
	for _, run := range []string{"coyo", "laion"} {
		files := t.TempDir()
		for i := range 5 {
			for _, ext := range []string{"jpg", "json", "txt"} {
				place(t, filepath.Join(files, fmt.Sprintf("%09d.%s", i, ext)), fmt.Sprint(run, i, ext))
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, run), 0o755); err != nil {
			t.Fatal(err)
		}
		tool(t, "tar", "--sort=name", "-cf", filepath.Join(dir, run, "00000.tar"), "-C", files, ".")
	}
}

// TestKeysOfTwoRuns reads shards with identical keys. Every sample is delivered once, and a lookup
// names the sample's shard.
func TestKeysOfTwoRuns(t *testing.T) {
	dir := t.TempDir()
	runs(t, dir)
	store := harness.Open(t, "minio")
	upload(t, store.Objects(t), dir, "pairs")
	if out := harness.MustRun(t, store, "index", store.Dataset("pairs")); !strings.Contains(out, "10 samples") || !strings.Contains(out, "5 keys in more than one shard") {
		t.Errorf("got %s, want 10 samples of 5 keys", out)
	}
	g := harness.Serve(t, store, "pairs")
	harness.MustRun(t, store, "fetch", g.URL)
	const sample = "/v1/datasets/pairs/sample?key=.%2F000000003"
	res := g.Get(t, sample)
	var problem struct {
		Code   string
		Shards []string
	}
	if err := json.Unmarshal(res.Body, &problem); err != nil || res.Status != http.StatusConflict || problem.Code != "ambiguous_key" || !slices.Equal(problem.Shards, []string{"coyo/00000.tar", "laion/00000.tar"}) {
		t.Errorf("got %d %s, want 409 with both shards", res.Status, res.Body)
	}
	for _, run := range []string{"coyo", "laion"} {
		body := string(g.MustGet(t, sample+"&shard="+run+"%2F00000.tar").Body)
		if !strings.Contains(body, run+"3txt") {
			t.Errorf("%s: got another sample", run)
		}
	}
}

// TestHuggingFaceCache reads a snapshot in Hugging Face's cache, which consists of links to blobs
// named by their content.
func TestHuggingFaceCache(t *testing.T) {
	dir := t.TempDir()
	runs(t, dir)
	repo := filepath.Join(dir, "datasets--laion--pairs")
	snapshot := filepath.Join(repo, "snapshots", "0a1b2c")
	for i, run := range []string{"coyo", "laion"} {
		blob := fmt.Sprintf("%064d", i)
		if err := os.MkdirAll(filepath.Join(snapshot, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(repo, "blobs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, run, "00000.tar"), filepath.Join(repo, "blobs", blob)); err != nil {
			t.Fatal(err)
		}
		tool(t, "ln", "-s", "../../../blobs/"+blob, filepath.Join(snapshot, "data", run+"-00000.tar"))
	}
	place(t, filepath.Join(repo, "refs", "main"), "0a1b2c")
	store := elsewhere(t, &harness.Store{Name: "dir"}, "file://"+snapshot)
	if r := harness.Run(t, store, "index", repo); r.Code == 0 || !strings.Contains(r.Stderr, "in the subdirectory snapshots/0a1b2c") {
		t.Errorf("the repository: got exit code %d: %s", r.Code, r.Stderr)
	}
	_, home, _ := strings.Cut(store.Dataset("pairs"), ",index=")
	if out := harness.MustRun(t, store, "index", snapshot, "--index-url", home); !strings.Contains(out, "address for other commands is "+store.Dataset("pairs")) {
		t.Errorf("got %s, want the address %s", out, store.Dataset("pairs"))
	}
	harness.MustRun(t, store, "verify", store.Dataset("pairs"))
	g := harness.Serve(t, store, "pairs")
	if out := harness.MustRun(t, store, "fetch", g.URL); !strings.Contains(out, "10 samples") {
		t.Errorf("got %s, want 10 samples", out)
	}
}

// elsewhere returns a store with one dataset, at the given address under any name. Its index is in
// a temporary directory.
func elsewhere(t *testing.T, store *harness.Store, address string) *harness.Store {
	t.Helper()
	return &harness.Store{Name: store.Name, Env: store.Env, Root: address + ",index=file://" + t.TempDir()}
}

// TestReadOnlyBucketWithTheIndexElsewhere indexes and serves a bucket that refuses every write.
// Losses, subsets and quarantines work, and are stored next to the index.
func TestReadOnlyBucketWithTheIndexElsewhere(t *testing.T) {
	dir := t.TempDir()
	runs(t, dir)
	open := harness.Open(t, "versitygw")
	upload(t, open.Objects(t), dir, "public")
	before := filesOf(t, open.Path)
	sealed := open.ReadOnly(t)
	if r := harness.Run(t, sealed, "index", sealed.Dataset("public")); r.Code != 5 || !strings.Contains(r.Stderr, "is read-only") || !strings.Contains(r.Stderr, "--index-url") {
		t.Errorf("beside the shards: got exit code %d, want 5 and the cure: %s", r.Code, r.Stderr)
	}
	store := elsewhere(t, sealed, sealed.Dataset("public"))
	address := store.Dataset(dataset)
	for _, args := range [][]string{
		{"index", address, "--batch-size", "4"},
		{"verify", address},
		{"gc", address},
		{"plan", address},
		{"subset", address, "--into", "train=1,val=1"},
		{"quarantine", address, "--key", "./000000001", "--shard", "coyo/00000.tar"},
	} {
		harness.MustRun(t, store, args...)
	}
	g := harness.Serve(t, store, dataset)
	if out := harness.MustRun(t, store, "fetch", g.URL); !strings.Contains(out, "10 samples") {
		t.Errorf("got %s, want 10 samples", out)
	}
	for _, body := range lossReports(t, g, dataset, 0, 2) {
		if a := g.Post(t, importance(dataset), body); a.Status != http.StatusOK {
			t.Errorf("report: got %d %s", a.Status, a.Body)
		}
	}
	if after := filesOf(t, open.Path); len(after) != len(before) {
		t.Errorf("in the bucket: got %d objects, want the %d of before", len(after), len(before))
	}
	_, home, _ := strings.Cut(address, ",index=file://")
	for _, kept := range []string{"index", "binding", "subset", "quarantine", "importance"} {
		if _, err := os.Stat(filepath.Join(home, ".millrace", kept)); err != nil {
			t.Error(err)
		}
	}
}

// TestImageFolderBesideAnIndex has torchvision read class folders that Millrace has indexed.
func TestImageFolderBesideAnIndex(t *testing.T) {
	beside, apart := t.TempDir(), t.TempDir()
	for i := range 6 {
		for _, dir := range []string{beside, apart} {
			place(t, filepath.Join(dir, []string{"cat", "dog"}[i%2], fmt.Sprintf("%d.jpg", i)), fmt.Sprint(i))
		}
	}
	const warning = "torchvision's ImageFolder"
	store := &harness.Store{Name: "dir"}
	if r := harness.Run(t, store, "index", beside, "--index-url", beside); r.Code != 0 || !strings.Contains(r.Stderr, warning) || !strings.Contains(r.Stderr, "remove ") {
		t.Errorf("beside the folders: got exit code %d, want a warning: %s", r.Code, r.Stderr)
	}
	at := elsewhere(t, store, "file://"+apart)
	if r := harness.Run(t, at, "index", at.Dataset("photos")); r.Code != 0 || strings.Contains(r.Stderr, warning) {
		t.Errorf("elsewhere: got exit code %d: %s", r.Code, r.Stderr)
	}
	harness.MustRun(t, at, "fetch", harness.Serve(t, at, "photos").URL)
	got := library(t, "imagefolder.py", beside, apart)
	if !strings.Contains(got[beside]["error"], ".millrace") {
		t.Errorf("with an index beside the folders: got %v: does ImageFolder read it by now?", got[beside])
	}
	same(t, "with the index elsewhere", map[string]string{"cat": "3", "dog": "3"}, got[apart])
}

// TestTrainBesideVal follows the advice in the error about two splits, and serves both from one
// prefix.
func TestTrainBesideVal(t *testing.T) {
	dir := t.TempDir()
	runs(t, dir)
	for run, split := range map[string]string{"coyo": "train", "laion": "validation"} {
		if err := os.Rename(filepath.Join(dir, run, "00000.tar"), filepath.Join(dir, split+"-00000-of-00001.tar")); err != nil {
			t.Fatal(err)
		}
	}
	store := harness.Open(t, "minio")
	upload(t, store.Objects(t), dir, "pairs")
	r := harness.Run(t, store, "index", store.Dataset("pairs"))
	if r.Code != 2 {
		t.Errorf("got exit code %d, want 2: %s", r.Code, r.Stderr)
	}
	var typed [][]string
	for line := range strings.Lines(r.Stderr) {
		if command, _, ok := strings.Cut(line, "  # "); ok {
			typed = append(typed, strings.Fields(command)[1:])
		}
	}
	if len(typed) != 3 {
		t.Fatalf("got %d commands, want one for each split and one for all: %s", len(typed), r.Stderr)
	}
	for i, samples := range []string{"5 samples", "5 samples", "10 samples"} {
		if out := harness.MustRun(t, store, typed[i]...); !strings.Contains(out, samples) {
			t.Errorf("%v: got %s, want %s", typed[i], out, samples)
		}
	}
	g := harness.ServeAddress(t, store, store.Dataset("pairs")+"#train", "--dataset", store.Dataset("pairs")+"#val")
	for _, name := range []string{"pairs-train", "pairs-val"} {
		if out := harness.MustRun(t, store, "fetch", g.URL, "--dataset", name); !strings.Contains(out, "5 samples") {
			t.Errorf("%s: got %s, want 5 samples", name, out)
		}
	}
}
