package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/provenance"
)

func committed(t *testing.T) (root string, files []File) {
	t.Helper()
	root, err := provenance.Root()
	if err != nil {
		t.Fatal(err)
	}
	if files, err = stored(root); err != nil {
		t.Fatal(err)
	}
	return root, files
}

func TestPage_IsWhatTheRowsMake(t *testing.T) {
	root, files := committed(t)
	got, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page(root, files)) {
		t.Error("docs/benchmarks.md is not what the rows make: run make figures")
	}
}

func TestRows_ComeFromWholeRuns(t *testing.T) {
	_, files := committed(t)
	for _, f := range files {
		if strings.Contains(f.Measured.Command, "-quick") {
			t.Errorf("%s: a quick run measures nothing", f.name())
		}
		if len(f.Measured.Sources) == 0 {
			t.Errorf("%s: got no sources", f.name())
		}
	}
}

func TestMarks_MissWithTheProductUnplugged(t *testing.T) {
	for _, m := range marks() {
		if m.fails == "" {
			t.Errorf("%d, %s: no change is named that misses it", m.goal, m.what)
		}
		for _, value := range []float64{0, math.NaN(), -1, math.Inf(1)} {
			r := Row{Value: value}
			if r.judge(m); r.Met {
				t.Errorf("%d, %s: %v meets it", m.goal, m.what, value)
			}
		}
		just := Row{Value: m.bound}
		if just.judge(m); !just.Met {
			t.Errorf("%d, %s: its bound does not meet it", m.goal, m.what)
		}
	}
}

// TestStore_ReplacesTheRowsOfItsGoals checks that a run replaces the rows of the goals that it has
// measured, and no others.
func TestStore_ReplacesTheRowsOfItsGoals(t *testing.T) {
	root, before := committed(t)
	dir := t.TempDir()
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range before[:3] {
		if err := provenance.Write(filepath.Join(dir, filepath.Base(f.file())), f); err != nil {
			t.Fatal(err)
		}
	}
	s := &suite{options: options{out: rel}, table: table{}}
	s.table.paired(2, "warm, text", "HOT", []float64{8, 9, 7}, []float64{10, 10, 10}, gigabytes())
	run, err := provenance.Begin("bench -goals 2")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	after, err := provenance.Read[File](dir)
	if err != nil || len(after) != 3 {
		t.Fatalf("got %d files, %v; want 3", len(after), err)
	}
	if got := after[1]; len(got.Rows) != 1 || got.Rows[0].Value != 0.8 || !got.Rows[0].Met || got.Measured.Command != "bench -goals 2" || got.Measured.Digest == "" {
		t.Errorf("got %+v, want the row of this run", got)
	}
	for _, i := range []int{0, 2} {
		if after[i].Measured.Commit != before[i].Measured.Commit {
			t.Errorf("goal %d: got commit %s, want %s as before", after[i].Goal, after[i].Measured.Commit, before[i].Measured.Commit)
		}
	}
}

func TestTable_RefusesWhatIsNoNumber(t *testing.T) {
	rows := table{}
	rows.paired(1, "warm, photos", "HOT", []float64{0}, []float64{0}, gigabytes())
	if rows[1][0].Met {
		t.Error("0/0 meets a goal")
	}
	if err := provenance.Write(filepath.Join(t.TempDir(), "goal.json"), rows); err == nil {
		t.Error("0/0 was stored")
	}
}

func TestSection_KeepsTextAndTables(t *testing.T) {
	const section = "## Title\n\nText with\ntwo lines.\n\n| a | b |\n|---|---|\n| 1 |  |\n| x | **2** |\n\nEnd.\n\n"
	got := ""
	for _, b := range blocks(section) {
		got += b.markdown()
	}
	if got != section {
		t.Errorf("got\n%s\nwant\n%s", got, section)
	}
}

func TestFlatShare_AddsUpOneRoom(t *testing.T) {
	const top = "Showing nodes\n   flat  flat%   sum%        cum   cum%\n" +
		"  0.30s 30.00% 30.00%      0.30s 30.00%  internal/runtime/syscall.Syscall6\n" +
		"  0.05s  5.00% 35.00%      0.05s  5.00%  hash/crc32.castagnoliSSE42Triple\n" +
		"  0.02s  2.00% 37.00%      0.07s  7.00%  hash/crc32.archUpdateCastagnoli\n"
	if got := flatShare(top, "hash/crc32."); math.Abs(got-0.07) > 1e-9 {
		t.Errorf("got %v, want 0.07", got)
	}
}

// TestCommandOf_NamesNoPath checks that public rows contain no paths of this machine.
func TestCommandOf_NamesNoPath(t *testing.T) {
	got := commandOf([]string{"-python", "/home/me/bin/python", "-goals", "1,2", "--out", "figures", "-rounds", "3"})
	if want := "bench -goals 1,2 -rounds 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
