package integration_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// splitShards packs tar shards of a split, with five samples each. Their keys contain the split and
// the shard.
func splitShards(t *testing.T, dir, split string, shards ...int) {
	t.Helper()
	for _, n := range shards {
		files := t.TempDir()
		for i := range 5 {
			for _, ext := range []string{"jpg", "cls"} {
				place(t, filepath.Join(files, fmt.Sprintf("%s-%d-%d.%s", split, n, i, ext)), fmt.Sprint(split, n, i, ext))
			}
		}
		tool(t, "tar", "--sort=name", "-cf", filepath.Join(dir, fmt.Sprintf("%s-%05d.tar", split, n)), "-C", files, ".")
	}
}

// TestSeveralIndexes gives the splits below one prefix named indexes, and passes each name to every
// command that accepts an address. A gateway follows the index in its address, and serves nothing
// of any other index.
func TestSeveralIndexes(t *testing.T) {
	store := harness.Open(t, "minio")
	dir := t.TempDir()
	splitShards(t, dir, "train", 0, 1, 2)
	splitShards(t, dir, "val", 0)
	upload(t, store.Objects(t), dir, "pairs")
	all := store.Dataset("pairs")
	train, val := all+"#train", all+"#val"
	out := harness.MustRun(t, store, "index", all, "--name", "train", "--match", "train-*")
	for _, want := range []string{"15 samples", "its address for other commands is " + train} {
		if !strings.Contains(out, want) {
			t.Errorf("index: got %s, want %q", out, want)
		}
	}
	if out := harness.MustRun(t, store, "index", val, "--match", "val-*", "--json"); !strings.Contains(out, `"name":"val"`) && !strings.Contains(out, `"name": "val"`) {
		t.Errorf("index: got %s, want the name", out)
	}
	r := harness.Run(t, store, "verify", all+"#trian")
	if r.Code != 4 || !strings.Contains(r.Stderr, "there is no index #trian, only #train, #val") {
		t.Errorf("a name that is not there: got exit code %d, want 4 and the names: %s", r.Code, r.Stderr)
	}
	if r := harness.Run(t, store, "info", all); r.Code != 4 || !strings.Contains(r.Stderr, "there is no default index, only #train, #val") || strings.Contains(r.Stderr, "millrace index") {
		t.Errorf("no default index: got exit code %d, want 4 and the names: %s", r.Code, r.Stderr)
	}
	for _, args := range [][]string{
		{"verify", train},
		{"plan", train},
		{"info", train},
		{"subset", train, "--into", "a=1,b=1"},
		{"subset", "list", train},
		{"quarantine", train, "--key", "./train-1-2"},
		{"quarantine", "list", train},
		{"reports", "list", train},
		{"gc", train},
		{"simulate", train, "--world-size", "2", "--rate", "1000/s", "--cache-size", "1MiB"},
	} {
		if r := harness.Run(t, store, args...); r.Code != 0 {
			t.Errorf("%v: got exit code %d: %s", args, r.Code, r.Stderr)
		}
	}
	file := filepath.Join(t.TempDir(), "sets.yaml")
	place(t, file, "datasets:\n  check: "+val+"\n")
	g := harness.ServeAddress(t, store, train, "--datasets", file, "--follow", "1s")
	if out := harness.MustRun(t, store, "fetch", g.URL); !strings.Contains(out, "15 samples") {
		t.Errorf("train: got %s, want 15 samples", out)
	}
	if out := harness.MustRun(t, store, "fetch", g.URL, "--dataset", "check"); !strings.Contains(out, "5 samples") {
		t.Errorf("val: got %s, want 5 samples", out)
	}
	y := &yard{t: t, Gateway: g}
	other := y.describe("check").Generation
	if a := g.Get(t, "/v1/datasets/pairs-train/epochs/0/batches/0?generation="+other); a.Status != http.StatusNotFound {
		t.Errorf("generation of another index: got %d, want 404", a.Status)
	}
	at := g.Get(t, "/v1/datasets/pairs-train/epochs/0/batches/0").Header.Get("Content-Location")
	if out := harness.MustRun(t, store, "occurrences", at, "--offline", train, "--key", "./train-1-2", "--epochs", "0-1"); !strings.Contains(out, "2 times") {
		t.Errorf("occurrences: got %s", out)
	}
	more := t.TempDir()
	splitShards(t, more, "train", 3)
	upload(t, store.Objects(t), more, "pairs")
	harness.MustRun(t, store, "index", train, "--match", "train-*")
	y.until("the gateway follows #train", 20*time.Second, func() bool { return y.describe("pairs-train").Samples == 20 })
	if d := y.describe("check"); d.Samples != 5 || d.Generation != other {
		t.Errorf("the other index: got %+v, want it unchanged", d)
	}
	if out := harness.MustRun(t, store, "gc", all); !strings.Contains(out, "current as #train") || !strings.Contains(out, "current as #val") {
		t.Errorf("gc: got %s, want both kept", out)
	}
}
