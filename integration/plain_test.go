package integration_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// plainCase is a data set of python/plain.py, with a form for its batches.
type plainCase struct {
	name, format string
	args         []string
	form, reader string // form of the batches, and the reader in plain.py
	content      string
	ignored      int
}

var plainCases = []plainCase{
	{"tfrecord", "tfrecord", nil, "", "tfrecord", "application/x-tfrecord", 0},
	{"jsonl", "jsonl", nil, "", "jsonl", "application/x-ndjson", 0},
	{"tfrecord-gz", "tfrecord", nil, "", "tfrecord", "application/x-tfrecord", 0},
	{"jsonl-gz", "jsonl", nil, "", "jsonl", "application/x-ndjson", 0},
	{"jsonl-xz", "jsonl", nil, "", "jsonl", "application/x-ndjson", 0},
	{"jsonl-lzma", "jsonl", nil, "", "jsonl", "application/x-ndjson", 0},
	{"table", "csv", nil, "", "table", "text/csv", 0},
	{"table-gz", "csv", nil, "", "table", "text/csv", 0},
	{"tabs", "csv", nil, "", "tabs", "text/tab-separated-values", 0},
	{"arrow-table", "csv", nil, "", "arrow-table", "text/csv", 0},
	{"arrow-table", "csv", nil, "", "table", "text/csv", 0},
	{"bare-table", "csv", []string{"--header", "absent"}, "", "bare-table", "text/csv", 0},
	{"table-pandas", "csv", nil, "", "table-pandas", "text/csv", 0},
	{"tabs-polars", "csv", nil, "", "tabs-polars", "text/tab-separated-values", 0},
	{"table-duckdb", "csv", nil, "", "table-duckdb", "text/csv", 0},
	{"tfrecord-tensorboardx", "tfrecord", nil, "", "tfrecord", "application/x-tfrecord", 0},
	{"jsonl-polars", "jsonl", nil, "", "jsonl", "application/x-ndjson", 0},
	{"npy-append", "records", nil, "npy", "npy", "application/x-npy", 0},
	{"llmc", "tokens", []string{"--sequence-length", "16"}, "", "windows", "application/octet-stream", 0},
	{"zipfile", "zip", nil, "", "tar", "application/x-tar", 0},
	{"zip-tools", "zip", nil, "", "tar", "application/x-tar", 0},
	{"npy-gz", "records", nil, "npy", "npy", "application/x-npy", 0},
	{"tokens-gz", "tokens", []string{"--sequence-length", "16", "--dtype", "<u2"}, "", "windows", "application/octet-stream", 0},
	{"jq", "jsonl", nil, "", "jq", "application/x-ndjson", 0},
	{"npy", "records", nil, "", "flat", "application/octet-stream", 0},
	{"npy", "records", nil, "npy", "npy", "application/x-npy", 0},
	{"flat", "records", []string{"--record-size", "24", "--dtype", "float32"}, "", "flat", "application/octet-stream", 0},
	{"cifar", "records", nil, "", "cifar", "application/octet-stream", 1},
	{"tokens", "tokens", []string{"--sequence-length", "16", "--dtype", "uint16"}, "", "windows", "application/octet-stream", 0},
	{"megatron", "tokens", []string{"--sequence-length", "16"}, "", "windows", "application/octet-stream", 0},
}

// TestFilesAsTheirOwnLibrariesReadThem has libraries write files of each format, and a gateway
// serves these in place. The libraries then read the batches of an epoch: every sample appears
// once, unchanged.
func TestFilesAsTheirOwnLibrariesReadThem(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "plain.py", "write", dir)
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	var pairs []string
	indexed := map[string]*harness.Gateway{}
	for i, c := range plainCases {
		g := indexed[c.name]
		if g == nil {
			upload(t, objects, filepath.Join(dir, c.name), c.name)
			report := harness.MustRun(t, store, append([]string{"index", store.Dataset(c.name), "--chunk-size", "1KiB", "--json"}, c.args...)...)
			for _, part := range []string{fmt.Sprintf("%q:%q", "format", c.format), fmt.Sprintf("%q:%d", "ignored", c.ignored)} {
				if !strings.Contains(strings.ReplaceAll(report, " ", ""), part) {
					t.Errorf("index %s: got %s, want %s", c.name, report, part)
				}
			}
			g = harness.Serve(t, store, c.name)
			indexed[c.name] = g
			fetched(t, store, g, c.name)
		}
		files := map[string][]byte{}
		for n, b := range epochAs(t, g, c.name, c.form, c.content, 7) {
			files[fmt.Sprintf("batch-%05d.bin", n)] = b
		}
		pairs = append(pairs, c.reader, saveAs(t, strconv.Itoa(i), files))
	}
	// If only the user can know a value, the error names its flag.
	for args, flag := range map[string]string{"megatron": "--sequence-length", "tokens --sequence-length 16": "--dtype"} {
		name, rest, _ := strings.Cut(args, " ")
		// Use a new name: an existing index would supply the value.
		r := harness.Run(t, store, append([]string{"index", store.Dataset(name) + "#new"}, strings.Fields(rest)...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, " "+flag+" ") {
			t.Errorf("index %s: exit code %d, %s, want one that names %s", args, r.Code, r.Stderr, flag)
		}
	}
	found := library(t, "plain.py", append([]string{"read"}, pairs...)...)
	for i, c := range plainCases {
		same(t, c.name+" "+c.form, want[c.name], found[strconv.Itoa(i)])
	}
}

// epochAs reads all batches of an epoch in one form; "" is the dataset's own form.
func epochAs(t *testing.T, g *harness.Gateway, dataset, form, content string, batchSize int) [][]byte {
	t.Helper()
	query := share(batchSize, 0, 1)
	if form != "" {
		query += "&format=" + form
	}
	var all [][]byte
	for n := 1; len(all) < n; {
		r := g.MustGet(t, "/v1/datasets/"+dataset+"/epochs/1/batches/"+strconv.Itoa(len(all))+query)
		var err error
		if n, err = strconv.Atoi(r.Header.Get("Millrace-Batches")); err != nil {
			t.Fatal(err)
		}
		if got := r.Header.Get("Content-Type"); got != content {
			t.Errorf("%s %s: got a body of %s, want %s", dataset, form, got, content)
		}
		all = append(all, r.Body)
	}
	return all
}
