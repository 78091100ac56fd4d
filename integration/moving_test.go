package integration_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// moved lists the libraries of docs/moving.md by their names in python/moving, with the options of
// index for their files and Millrace's name for the format.
var moved = []struct {
	name  string
	args  []string
	index string
}{
	{name: "webdataset"},
	{name: "streaming"},
	{name: "litdata"},
	{name: "tfrecord"},
	{name: "parquet"},
	{"huggingface", []string{"--split", "train"}, "#train"},
	{name: "imagefolder"},
	{name: "tokens", args: []string{"--sequence-length", "64", "--dtype", "uint16"}},
}

const movedSamples = 96

// TestMoving runs the scripts of docs/moving.md: each library reads the files that it wrote,
// Millrace reads the same files in place, and two libraries read the gateway's responses. All train
// on the same samples, each exactly once.
func TestMoving(t *testing.T) {
	dir := t.TempDir()
	want := told{}
	for _, m := range moved { // one after another, because each has its own processes
		for name, samples := range library(t, "moving/run.py", "before", m.name, filepath.Join(dir, m.name)) {
			want[name] = samples
		}
	}
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	var more, names []string
	for _, m := range moved {
		upload(t, objects, filepath.Join(dir, m.name), m.name)
		out := harness.MustRun(t, store, append([]string{"index", store.Dataset(m.name)}, m.args...)...)
		if m.name == "litdata" && strings.Contains(out, "ignored") {
			t.Errorf("index of LitData's chunks: got %s, want nothing ignored", out)
		}
		more = append(more, "--dataset", m.name+"="+store.Dataset(m.name)+m.index)
		names = append(names, m.name)
	}
	g := harness.Serve(t, store, moved[0].name, more[2:]...)
	got := library(t, "moving/run.py", append([]string{"after", g.URL}, names...)...)
	for _, name := range names {
		if len(want[name]) != movedSamples {
			t.Errorf("%s: got %d different samples from the library itself, want %d", name, len(want[name]), movedSamples)
		}
		same(t, name, want[name], got[name])
		for digest, times := range got[name] {
			if times != "1" {
				t.Errorf("%s: sample %s: got it %s times, want it once", name, digest, times)
			}
		}
	}
	for _, name := range []string{"webdataset", "streaming"} {
		same(t, name+" on what is served", want[name], library(t, "moving/run.py", "keep", name, g.URL)[name])
	}
}

// TestMovingShowsWhatRuns compares the code on the page with the scripts that the test runs.
func TestMovingShowsWhatRuns(t *testing.T) {
	page := readText(t, "../docs/moving.md")
	var shown []string
	for _, m := range regexp.MustCompile("(?ms)^```python\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		shown = append(shown, m[1])
	}
	var run []string
	for _, m := range moved {
		run = append(run, regions(readText(t, filepath.Join("python", "moving", "from_"+m.name+".py")))...)
	}
	for _, text := range shown {
		if !slices.Contains(run, text) {
			t.Errorf("docs/moving.md: got code that no script has:\n%s", text)
		}
	}
	for _, text := range run {
		if !slices.Contains(shown, text) {
			t.Errorf("docs/moving.md: want code that a script has:\n%s", text)
		}
	}
	for _, m := range moved {
		if line := "`" + strings.Join(append([]string{"millrace index URL"}, m.args...), " ") + "`"; !strings.Contains(page, line) {
			t.Errorf("docs/moving.md: want %s, as %s was indexed", line, m.name)
		}
	}
	if len(run) < 2*len(moved) {
		t.Errorf("got %d regions in the scripts, want two of each of %d", len(run), len(moved))
	}
}

// regions returns the marked regions of a script, without the indentation of their first line.
func regions(script string) (all []string) {
	for _, m := range regexp.MustCompile(`(?ms)^( *)# begin: \w+\n(.*?)^ *# end$`).FindAllStringSubmatch(script, -1) {
		var lines []string
		for line := range strings.Lines(m[2]) {
			lines = append(lines, strings.TrimPrefix(line, m[1]))
		}
		all = append(all, strings.Join(lines, ""))
	}
	return all
}

// TestEvennessOfThePage recomputes the figures of docs/dev/shuffle-quality.md from their seeds.
func TestEvennessOfThePage(t *testing.T) {
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, "-W", "ignore", filepath.Join("bench", "peers", "evenness.py"), "--json")
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("evenness.py: %v\n%s", err, stderr.String())
	}
	var rows map[string]string
	if err := json.Unmarshal(out, &rows); err != nil || len(rows) < 5 {
		t.Fatalf("evenness.py printed %s, %v", out, err)
	}
	page := readText(t, "../docs/dev/shuffle-quality.md")
	for how, figure := range rows {
		if row := "| " + how + " | " + figure + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/dev/shuffle-quality.md: want the row %s", row)
		}
	}
}
