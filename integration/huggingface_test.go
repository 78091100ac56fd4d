package integration_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestHuggingFace runs the commands of docs/moving.md on a repository with three splits. It
// compares a gateway's rows, column types and names of class labels with those that the library
// datasets reads from the same files.
func TestHuggingFace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "huggingface")
	library(t, "moving/run.py", "before", "huggingface", dir)
	store := harness.Open(t, "minio")
	upload(t, store.Objects(t), dir, "huggingface")
	serve := page(t, store)
	g := harness.ServeAddress(t, store, serve[1], serve[2:]...)

	splits := map[string]string{"train": "huggingface", "validation": "validation", "test": "test"} // dataset that serves each split
	want := library(t, "huggingface.py", "datasets", dir, "train", "validation", "test")
	got := library(t, "huggingface.py", "millrace", g.URL, "huggingface", "validation", "test")
	for split, dataset := range splits {
		same(t, split, want[split], got[dataset])
	}
	if n := len(want["train"]); n != 1+movedSamples {
		t.Errorf("got %d rows of train, want %d", n-1, movedSamples)
	}
}

// page runs the indexing commands of the page's section, and returns the arguments of its serve
// command.
func page(t *testing.T, store *harness.Store) (serve []string) {
	t.Helper()
	block := regexp.MustCompile("(?s)## Hugging Face\n.*?```sh\n(.*?)```").FindStringSubmatch(readText(t, "../docs/moving.md"))
	if block == nil {
		t.Fatal("docs/moving.md: want commands under Hugging Face")
	}
	lines := strings.Split(strings.TrimSpace(block[1]), "\n")
	for _, line := range lines[:len(lines)-1] {
		harness.MustRun(t, store, strings.Fields(strings.ReplaceAll(line, "URL", store.Dataset("huggingface")))[1:]...)
	}
	serve = strings.Fields(strings.ReplaceAll(lines[len(lines)-1], "URL", store.Dataset("huggingface")))[1:]
	if len(lines) != 4 || len(serve) != 7 || !slices.Equal(serve[:2], []string{"serve", "--dataset"}) {
		t.Fatalf("docs/moving.md: got %q, want three splits indexed and served", lines)
	}
	return serve[1:]
}

// TestHuggingFaceNulls reads columns of every shape, with nulls at every depth. The class labels
// are in README.md, because the files do not contain them.
func TestHuggingFaceNulls(t *testing.T) {
	store := harness.Open(t, "dir")
	dir := filepath.Join(store.Path, "shapes")
	library(t, "huggingface.py", "write", dir)
	harness.MustRun(t, store, "index", store.Dataset("shapes"), "--split", "test", "--chunk-size", "16KiB")
	g := harness.ServeAddress(t, store, "test="+store.Dataset("shapes")+"#test")
	want := library(t, "huggingface.py", "datasets", dir, "test")
	same(t, "shapes", want["test"], library(t, "huggingface.py", "millrace", g.URL, "test")["test"])
	if about := want["test"]["columns"]; !strings.Contains(about, `"objects.kind": ["bird", "cat", "dog"]`) {
		t.Errorf("got columns %s, want the classes of a list's structs", about)
	}
}
