package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
)

// read runs a command with --json and decodes its output.
func read[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append(args, "--json")...).stdout), &v); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return v
}

// TestInfo_SameFromStoreAndGateway: info prints the same from a store and from a gateway, except
// for the gateway's mark of its default dataset.
func TestInfo_SameFromStoreAndGateway(t *testing.T) {
	dir := shards(t)
	url := gatewayFor(t, dir)
	want := read[client.Dataset](t, "info", "files="+dir)
	if want.Generation == "" || want.Samples != 50 || want.Shards == 0 || want.Chunks == 0 || want.Bytes == 0 || want.Plan.BatchSize == 0 || want.Format != "tar" {
		t.Fatalf("got %+v, want all that the index says", want)
	}
	want.Default = true
	for _, args := range [][]string{
		{url},
		{url + "/"},
		{strings.TrimPrefix(url, "http://")},
		{url + "/files"},
		{url + "/v1/datasets/files"},
		{strings.TrimPrefix(url, "http://") + "/files"},
		{url, "--dataset", "files"},
	} {
		if got := read[client.Dataset](t, append([]string{"info"}, args...)...); !cmp.Equal(got, want) {
			t.Errorf("%q: got %+v, want %+v", args, got, want)
		}
	}
	text := ok(t, "info", dir).stdout
	for _, part := range []string{want.Generation, "samples       50\n", "shuffle slot, window 4, batch size 8"} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant %q in it", text, part)
		}
	}
	for args, code := range map[string]int{url + "/nope": exitNotFound, "/nope": exitNotFound, dir + " --dataset files": exitUsage} {
		if o := millrace(t, nil, append([]string{"info"}, strings.Fields(args)...)...); o.code != code {
			t.Errorf("%s: got exit code %d and %s, want %d", args, o.code, o.stderr, code)
		}
	}
}

// TestInfo_ListsFieldsFromStoreAndGateway: info lists the fields of an MDS dataset, the same from a
// store and from a gateway.
func TestInfo_ListsFieldsFromStoreAndGateway(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../chunkindex/format/mds/testdata")); err != nil {
		t.Fatal(err)
	}
	ok(t, "index", dir)
	stored, served := read[client.Dataset](t, "info", dir), read[client.Dataset](t, "info", gatewayFor(t, dir))
	if want := (client.Field{Name: "id", Encoding: "raw", Type: "int64"}); len(stored.Fields) == 0 || !cmp.Equal(stored.Fields[0], want) {
		t.Errorf("got fields %+v, want %+v first", stored.Fields, want)
	}
	if d := cmp.Diff(stored.Fields, served.Fields); d != "" {
		t.Errorf("a gateway tells other fields than the index has: %s", d)
	}
}

// TestInfo_RejectsIndexOfOlderVersion: the error suggests the command that makes a new index.
func TestInfo_RejectsIndexOfOlderVersion(t *testing.T) {
	dir := shards(t)
	found, err := filepath.Glob(filepath.Join(dir, ".millrace", "index", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %q, %v, want one index", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err == nil {
		b[8] = 1
		err = os.WriteFile(found[0], b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := "version 1: written by an older program in a format that is no longer supported: run 'millrace index file://" + dir + "'"
	if o := millrace(t, nil, "info", dir); o.code != exitFailure || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d and %s, want %q", o.code, o.stderr, want)
	}
	ok(t, "index", dir)
	ok(t, "info", dir)
}

func TestDatasets_ListsServedDatasets(t *testing.T) {
	url := gatewayFor(t, shards(t))
	all := read[struct{ Datasets []client.Dataset }](t, "datasets", url).Datasets
	if len(all) != 1 || all[0].Name != "files" || !all[0].Default {
		t.Errorf("got %+v, want one, the default one", all)
	}
	text := ok(t, "datasets", strings.TrimPrefix(url, "http://")).stdout
	_, row, _ := strings.Cut(text, "\n")
	address, _, _ := strings.Cut(row, " ")
	if address != url+"/files" || !strings.Contains(row, "default") {
		t.Errorf("got\n%s\nwant the address of the dataset and its mark", text)
	}
	for _, command := range [][]string{{"info"}, {"explain"}, {"fetch"}} {
		ok(t, append(command, address)...)
	}
}

// TestLists_ShowStoredObjects: the lists contain the objects of the current generation and of a
// generation that is gone.
func TestLists_ShowStoredObjects(t *testing.T) {
	dir := shards(t)
	if text := ok(t, "subset", "list", dir).stdout + ok(t, "quarantine", "list", dir).stdout + ok(t, "reports", "list", dir).stdout; text != "no subsets\nno quarantines\nno reports\n\nno snapshots\n" {
		t.Errorf("an empty place: got %q", text)
	}
	first := read[subsetReport](t, "subset", dir, "--into", "a=1,b=2")
	second := read[subsetReport](t, "subset", dir, "--into", "a=1,b=2", "--salt", "other")
	bad := read[quarantineReport](t, "quarantine", dir, "--key", "f001", "--reason", "test")
	url := gatewayFor(t, dir)
	c, err := client.New(client.Config{Gateways: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	b, err := c.Batch(t.Context(), client.Options{Epoch: 4}, 0)
	if err == nil {
		err = c.Report(t.Context(), b, make([]float64, b.Samples()))
	}
	if err != nil {
		t.Fatal(err)
	}
	before := read[inventory.Losses](t, "reports", "list", dir)
	if len(before.Reports) != 1 || len(before.Snapshots) != 0 || before.Reports[0].Frozen {
		t.Errorf("before the freeze: got %+v", before)
	}
	if _, err := c.Freeze(t.Context(), b); err != nil {
		t.Fatal(err)
	}

	for i := range 2 {
		current := i == 0
		subsets := read[inventory.Subsets](t, "subset", "list", dir).Subsets
		if len(subsets) != 2 {
			t.Fatalf("got %+v, want two splits", subsets)
		}
		for _, s := range subsets {
			if s.Default != (s.Digest == first.Digest) || s.Salt == "" == (s.Digest == second.Digest) || s.Generation != first.Generation || s.Current != current || len(s.Parts) != 2 {
				t.Errorf("got %+v, want %s and %s, the first by default", s, first.Digest, second.Digest)
			}
		}
		quarantines := read[inventory.Quarantines](t, "quarantine", "list", dir).Quarantines
		if len(quarantines) != 1 || quarantines[0].Digest != bad.Digest || quarantines[0].Samples != 1 || quarantines[0].Current != current {
			t.Errorf("got %+v, want %s of one sample", quarantines, bad.Digest)
		}
		l := read[inventory.Losses](t, "reports", "list", dir)
		if len(l.Reports) != 1 || len(l.Snapshots) != 1 {
			t.Fatalf("got %+v, want an epoch and its snapshot", l)
		}
		r, s := l.Reports[0], l.Snapshots[0]
		if r.Epoch != 4 || r.Batches != 1 || r.Reports != 1 || !r.Frozen || r.Current != current || r.Bytes == 0 || r.Plan != s.Plan || s.Positions != 8 || s.Samples != 50 || s.Epoch != 4 {
			t.Errorf("got %+v and %+v, want epoch 4 with one batch of 8 positions", r, s)
		}
		ok(t, "index", dir, "--seed", "1")
	}
	text := ok(t, "subset", "list", dir).stdout + ok(t, "quarantine", "list", dir).stdout + ok(t, "reports", "list", dir).stdout
	for _, part := range []string{first.Digest + " (default)", "a=1,b=2", bad.Digest, "plan 1: batch_size=8&"} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant %q in it", text, part)
		}
	}
	for args, code := range map[string]int{"reports lst " + dir: exitUsage, "reports list http://gw:8080/imagenet": exitUsage, "subset list /nope": exitNotFound, "subset list": exitUsage} {
		if o := millrace(t, nil, strings.Fields(args)...); o.code != code {
			t.Errorf("%s: got exit code %d and %s, want %d", args, o.code, o.stderr, code)
		}
	}
}
