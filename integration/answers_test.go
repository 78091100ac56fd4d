package integration_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestTypesOfAnswersArePyarrows serves files by several writers, and files with random nested
// schemas. The columns of an answer as Arrow have the types and values that pyarrow reads from the
// file, with the differences that docs/spec/rows.md lists.
func TestTypesOfAnswersArePyarrows(t *testing.T) {
	count := 20
	if long() {
		count = 500
	}
	dir := t.TempDir()
	names := slices.Sorted(maps.Keys(library(t, "answers.py", "write", dir, strconv.Itoa(count))))
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	for some := range slices.Chunk(names, 50) {
		var more []string
		for _, name := range some {
			upload(t, objects, filepath.Join(dir, name), name)
			harness.MustRun(t, store, "index", store.Dataset(name), "--chunk-size", "16KiB")
			more = append(more, "--dataset", name+"="+store.Dataset(name))
		}
		g := harness.Serve(t, store, some[0], more[2:]...)
		checkAnswers(t, g, dir, some...)
	}
}

// TestCommonLibrariesReadAnswers serves a Parquet file with a column of every type to each library. The
// library reads the same values from an answer as Arrow as from the file. docs/answers.md states its
// version.
func TestCommonLibrariesReadAnswers(t *testing.T) {
	page, err := os.ReadFile("../docs/answers.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, store := t.TempDir(), harness.Open(t, "minio")
	about := library(t, "readers.py", "write", dir)
	names := slices.Sorted(maps.Keys(about))
	g := serveAll(t, store, store.Objects(t), dir, names...)
	for _, name := range names {
		version := about[name]["version"]
		t.Logf("%s %s reads %s columns, and not %q", name, version, about[name]["columns"], about[name]["unread"])
		if !strings.Contains(strings.ToLower(strings.ReplaceAll(string(page), "`", "")), name+" "+version) {
			t.Errorf("docs/answers.md does not state %s %s", name, version)
		}
		_, file, _ := strings.Cut(answersOf(t, g, name)[0], "=")
		for column, wrong := range library(t, "readers.py", "check", name, dir, file)[name] {
			t.Errorf("%s, column %s: %s", name, column, wrong)
		}
	}
}

// checkAnswers compares epochs as Arrow with the files in dir, a directory for each data set.
func checkAnswers(t *testing.T, g *harness.Gateway, dir string, names ...string) {
	t.Helper()
	var files []string
	for _, name := range names {
		files = append(files, answersOf(t, g, name)...)
	}
	for name, wrong := range library(t, "answers.py", append([]string{"check", dir}, files...)...) {
		for what, how := range wrong {
			t.Errorf("%s, %s: %s", name, what, how)
		}
	}
}

// answersOf saves the batches of an epoch as Arrow, and returns them as arguments of answers.py
// and typed.py.
func answersOf(t *testing.T, g *harness.Gateway, name string) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for i, body := range epochAs(t, g, name, "arrow", "application/vnd.apache.arrow.stream", 40) {
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, body, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name+"="+file)
	}
	return files
}
