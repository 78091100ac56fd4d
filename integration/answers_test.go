package integration_test

import (
	"fmt"
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
// file, with the differences that docs/spec/rows.md lists. Polars, DuckDB and datasets read an answer
// with the same rows.
func TestTypesOfAnswersArePyarrows(t *testing.T) {
	count := 20
	if long() {
		count = 500
	}
	dir := t.TempDir()
	var names []string
	for name := range library(t, "answers.py", "write", dir, strconv.Itoa(count)) {
		names = append(names, name)
	}
	slices.Sort(names)
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
		for name, reader := range map[string]string{"parquet-polars": "polars", "parquet-duckdb": "duckdb", "arrow-datasets": "datasets"} {
			if slices.Contains(some, name) {
				_, file, _ := strings.Cut(answersOf(t, g, name)[0], "=")
				for row, wrong := range library(t, "answers.py", "others", reader, file)[reader] {
					t.Errorf("%s, row %s: %s", reader, row, wrong)
				}
			}
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
