package integration_test

import (
	"encoding/json"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestChosenColumnsAloneAreRead indexes some columns of Parquet files, and reads an epoch. The
// gateway requests the column chunks of these columns from MinIO once each, and no other byte. Each
// row equals the result of pyarrow's columns=. An index of all columns exists too.
func TestChosenColumnsAloneAreRead(t *testing.T) {
	for name, columns := range map[string][]string{
		"parquet-far":    {"caption", "label"},
		"parquet-struct": {"image.path", "label", "tags"},
		"parquet-image":  {"image"},
	} {
		t.Run(name, func(t *testing.T) {
			store, reads := harness.OpenCounted(t)
			dir := t.TempDir()
			files := library(t, "columns.py", append([]string{dir, name}, columns...)...)["files"]
			upload(t, store.Objects(t), filepath.Join(dir, name), name)
			all, some := store.Dataset(name), store.Dataset(name)+"#some"
			harness.MustRun(t, store, "index", all)
			reads.Forget()
			harness.MustRun(t, store, "index", some, "--chunk-size", "256KiB", "--fields", strings.Join(columns, ","))
			chosen := onlyChosen(t, "index", reads, files)
			harness.MustRun(t, store, "verify", some)
			g := harness.ServeAddress(t, store, some, "--dataset", "whole="+all)
			served := name + "-some"
			reads.Forget()
			tar := epochOfRows(t, g, served, "tar")
			if onlyChosen(t, "serve", reads, files); reads.Bytes() != chosen || reads.Again() != 0 {
				t.Errorf("MinIO was asked for %d bytes of an epoch, %d of them twice, want the %d of the columns", reads.Bytes(), reads.Again(), chosen)
			}
			if got := g.Metric(t, "millrace_store_read_bytes_total", ""); int64(got) != chosen {
				t.Errorf("the gateway counts %v bytes read, want %d", got, chosen)
			}
			want := library(t, "columnar.py", "judge", dir, served)[served]
			sameRows(t, name, want, readRows(t, map[string]epochFiles{name: tar})[name])
			checkAnswers(t, g, dir, served)
			if out := harness.MustRun(t, store, "fetch", g.URL, "--dataset", "whole"); !strings.Contains(out, "180 samples") {
				t.Errorf("all columns: got %s", out)
			}
		})
	}
}

// onlyChosen checks that a store's reads are exactly the column chunks of the chosen columns, and
// returns the total size of these. A footer is a range at the end of a file.
func onlyChosen(t *testing.T, who string, reads *harness.Reads, files map[string]string) (sum int64) {
	t.Helper()
	type file struct {
		Size int64
		Runs [][2]int64
	}
	chosen := map[string]file{}
	for name, text := range files {
		var f file
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		chosen[name] = f
		for _, r := range f.Runs {
			sum += r[1] - r[0] + 1
		}
	}
	for _, read := range reads.All() {
		f := chosen[path.Base(read.Shard)]
		ok := who == "index" && read.Last == f.Size-1 && read.Bytes() <= 64<<10
		for _, r := range f.Runs {
			ok = ok || r[0] <= read.First && read.Last <= r[1]
		}
		if !ok {
			t.Errorf("%s: bytes %d to %d of %s were read, which are not of chosen columns: %v", who, read.First, read.Last, read.Shard, f.Runs)
		}
	}
	return sum
}
