package integration_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestLayouts serves data sets in the layouts of common writers, and compares every value with those
// that the writer's own reader finds.
func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "layouts.py", "write", dir)
	names := slices.Sorted(maps.Keys(want))
	page := readText(t, "../docs/spec/formats.md")
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/spec/formats.md: the table of layouts lacks %s", name)
		}
	}
	store := harness.Open(t, "minio")
	for _, name := range names {
		if !strings.HasPrefix(name, "packed-") {
			continue
		}
		files, shards := filepath.Join(dir, "files-"+name), filepath.Join(dir, name)
		if err := os.Rename(shards, files); err != nil {
			t.Fatal(err)
		}
		args := []string{"pack", files, shards}
		if table := filepath.Join(files, "table.json"); exists(table) {
			args = append(args, "--table", table)
		}
		harness.MustRun(t, store, args...)
		if err := os.RemoveAll(filepath.Join(shards, ".millrace")); err != nil {
			t.Fatal(err)
		}
	}
	tables, others := divided(names, "snapshot-")
	g := serveAll(t, store, store.Objects(t), dir, others...)
	got := library(t, "layouts.py", append([]string{"read", g.URL}, others...)...)
	for _, name := range tables {
		upload(t, store.Objects(t), filepath.Join(dir, name), name)
		files := filepath.Join(dir, name+".files")
		list := strings.NewReplacer("file://"+filepath.Join(dir, name)+"/", "", filepath.Join(dir, name)+"/", store.Dataset(name)+"/").Replace(readText(t, files))
		if err := os.WriteFile(files, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := harness.MustRun(t, store, "index", store.Dataset(name), "--files", files, "--name", "v7"); !strings.Contains(out, "#v7") {
			t.Errorf("%s: got %s, want an index called v7", name, out)
		}
		served := harness.Serve(t, store, others[0], "--dataset", name+"-v7="+store.Dataset(name)+"#v7")
		maps.Copy(got, library(t, "layouts.py", "read", served.URL, name+"-v7"))
		got[name] = got[name+"-v7"]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// divided returns the names with a prefix, and the others.
func divided(names []string, prefix string) (with, others []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			with = append(with, name)
		} else {
			others = append(others, name)
		}
	}
	return with, others
}
