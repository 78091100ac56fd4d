package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/cmd/internal/costs"
)

// costed runs cost and returns its report.
func costed(t *testing.T, args ...string) (rep costReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append(append([]string{"cost"}, args...), "--json")...).stdout), &rep); err != nil {
		t.Fatal(err)
	}
	return rep
}

// chat writes and indexes a dataset of JSON Lines.
func chat(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	lines := `{"ids": [1, 2, 3], "w": 4}` + "\n" + `{"ids": [], "w": 5}` + "\n" + `{"ids": [1], "w": null}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	ok(t, "index", dir)
	return dir
}

// TestCost_StoresATableOnce stores the same costs by two specs, from a file and from stdin, again
// after a kill between table and name, and other costs under a used name.
func TestCost_StoresATableOnce(t *testing.T) {
	dir := chat(t)
	first := costed(t, "tokens", dir, "--from", "len(ids)")
	want := costReport{first.Digest, "tokens", first.Generation, true, costs.Summary{Samples: 3, Minimum: 0, Mean: 4. / 3, Median: 1, P99: 3, Maximum: 3}}
	if diff := cmp.Diff(want, first); diff != "" || len(first.Digest) != 64 {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	want.New = false
	names, err := filepath.Glob(filepath.Join(dir, ".millrace/cost/name-*-tokens"))
	if err != nil || len(names) != 1 || os.Remove(names[0]) != nil {
		t.Fatalf("got the names %q, %v", names, err)
	}
	list := filepath.Join(t.TempDir(), "lengths.tsv")
	if err := os.WriteFile(list, []byte("a/000000002\t1\na/000000000\t3\na/000000001\t0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"len(ids)", list, "-"} {
		if from == "-" {
			in, err := os.Open(list)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			was := os.Stdin
			defer func() { os.Stdin = was }()
			os.Stdin = in
		}
		if diff := cmp.Diff(want, costed(t, "tokens", dir, "--from", from)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", from, diff)
		}
	}
	o := millrace(t, nil, "cost", "tokens", dir, "--from", "w", "--missing", "6")
	if o.code != exitFailure || !strings.Contains(o.stderr, "has the cost table "+first.Digest+" and never changes: use another name for ") {
		t.Errorf("another table of the name: got exit code %d: %s", o.code, o.stderr)
	}
	second := costed(t, "width", dir, "--from", "w", "--missing", "6")
	if second.New || second.Missing != 1 || second.Maximum != 6 || second.Digest == first.Digest {
		t.Errorf("with another name: got %+v", second)
	}
	if o := ok(t, "cost", "width", dir, "--from", "w", "--missing", "6"); !strings.Contains(o.stdout, "3 samples, 1 without a value have 6\n  minimum 4, mean 5.0, median 5, p99 6, maximum 6\n  cost "+second.Digest) {
		t.Errorf("got %s", o.stdout)
	}
	var l struct {
		Costs []struct {
			Cost, Generation string
			Names            []string
			Samples          uint64
		}
	}
	if err := json.Unmarshal([]byte(ok(t, "cost", "list", dir, "--json").stdout), &l); err != nil || len(l.Costs) != 2 {
		t.Fatalf("got %+v, %v, want two tables", l, err)
	}
	for _, c := range l.Costs {
		if name := map[string]string{first.Digest: "tokens", second.Digest: "width"}[c.Cost]; c.Samples != 3 || c.Generation != first.Generation || len(c.Names) != 1 || c.Names[0] != name {
			t.Errorf("got %+v, want the name %q", c, name)
		}
	}
	if o := ok(t, "cost", "list", dir); !strings.Contains(o.stdout, first.Digest+"  tokens") {
		t.Errorf("got %s", o.stdout)
	}
}

func TestCost_Refuses(t *testing.T) {
	dir := chat(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"tokens", dir}, exitUsage, "--from is required"},
		{[]string{"tokens", dir, "--from", "len(ids"}, exitUsage, `--from "len(ids": must be len(FIELD)`},
		{[]string{"to,kens", dir, "--from", "ids"}, exitUsage, `"to,kens": the name of a cost table must have`},
		{[]string{"tokens", dir, "--from", "ids", "--missing", "4294967296"}, exitUsage, "--missing 4294967296: must be at most 2^32-1"},
		{[]string{"tokens", dir, "--from", "w"}, exitFailure, "sample a/000000002: the value is null; --missing N gives such samples a cost"},
		{[]string{"tokens", dir, "--from", "./lengths.tsv"}, exitNotFound, "open ./lengths.tsv: no such file"},
		{[]string{"tokens", t.TempDir(), "--from", "w"}, exitNotFound, "run 'millrace index"},
	} {
		if o := millrace(t, nil, append([]string{"cost"}, c.args...)...); o.code != c.code || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%v: got exit code %d: %s", c.args[2:], o.code, o.stderr)
		}
	}
	if got, err := filepath.Glob(filepath.Join(dir, ".millrace/cost/*")); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v, want nothing stored", got, err)
	}
}

// TestCost_NamesADamagedTable repeats a command after one byte of its table has changed, and after
// the removal that the error names.
func TestCost_NamesADamagedTable(t *testing.T) {
	dir := chat(t)
	digest := costed(t, "tokens", dir, "--from", "len(ids)").Digest
	path := filepath.Join(dir, ".millrace/cost", digest)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-6] ^= 1
	if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, b, 0o644)); err != nil {
		t.Fatal(err)
	}
	o := millrace(t, nil, "cost", "tokens", dir, "--from", "len(ids)")
	if want := "remove .millrace/cost/" + digest + ", and run this command again"; o.code != exitCorrupt || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d: %s; want %d and %s", o.code, o.stderr, exitCorrupt, want)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if rep := costed(t, "tokens", dir, "--from", "len(ids)"); !rep.New || rep.Digest != digest {
		t.Errorf("after the removal: got %+v, want a new table %s", rep, digest)
	}
}
