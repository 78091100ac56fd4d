package browser_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

// shownSet is a dataset of python/shown.py, with options for index and the expected text of its
// first samples.
type shownSet struct {
	name, format string
	args         []string // of index
	tiles        int      // number in a batch
	seen         string   // selector for the contents of tiles
	least        int      // of that
	says         []string
}

func shownSets() []shownSet {
	const pictures = ".tile img"
	return []shownSet{
		{"tar", "tar", nil, 8, pictures, 8, []string{"photo-0000", "Download part"}},
		{"zip", "zip", nil, 8, pictures, 8, []string{`"bird"`, "photo-0000"}},
		{"mds", "mds", nil, 8, pictures, 8, []string{"ndarray of a shape", "float, shape (2, 3)", "10000000000000000000000000000000000000001", "Pixels, RGB, 5 x 5.", "runs code when it is read", `"of": [`}},
		{"litdata", "litdata", nil, 8, ".tile canvas, .tile img", 8, []string{"int32, shape (1, 2)", "0.14285714285714285"}},
		{"tfrecord", "tfrecord", nil, 8, pictures, 8, []string{"label", "image"}},
		{"jsonl", "jsonl", nil, 8, ".tile .text", 8, []string{`"deep": "xx"`, "0.2857142857142857"}},
		{"csv", "csv", nil, 8, ".tile dl", 8, []string{"te,xt", "last"}},
		{"tsv", "csv", nil, 8, ".tile dl", 8, []string{"te,xt"}},
		{"parquet", "parquet", nil, 8, ".tile .lines", 6, []string{"messages", `"role": "user"`, "counts", `"long long long`, "image.path"}},
		{"huggingface", "parquet", []string{"--split", "all"}, 8, pictures, 7, []string{"0 (bird)", "price", "2026-01-01 00:00:02.005", "-8.50", "list<float>", "timestamp[ms]"}},
		{"arrow", "arrow", nil, 8, ".tile .lines", 6, []string{"decimal256", "-12.34", "1969-12-31", "2026-11-23 10:30:01", "-9223372036854775808", "18446744073709551615", "NaN", "616263"}},
		{"records", "records", nil, 8, ".tile canvas", 8, []string{"cls", "uint8, shape (3, 32, 32)"}},
		{"npy", "records", nil, 8, ".tile .text", 8, []string{"float, shape (2, 3)"}},
		{"tokens", "tokens", []string{"--sequence-length", "64", "--dtype", "uint16"}, 8, ".tile .only", 8, []string{"65 tokens of uint16"}},
		{"megatron", "tokens", []string{"--sequence-length", "16"}, 8, ".tile .only", 8, []string{"17 tokens of uint16", "0 7 14 21"}},
		{"files", "files", nil, 8, pictures, 8, []string{"0 (bird)", "Classes, by folder: 3"}},
		{"media", "files", []string{"--format", "files"}, 16, ".tile img, .tile canvas, .tile audio", 14, []string{"uint8, shape (48, 64, 3)", "float32, shape (3, 4), from 0 to 11", "a TIFF image", "Download part"}},
	}
}

// written has python/shown.py write its datasets into a directory store.
func written(t *testing.T, dir string) {
	t.Helper()
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, "-W", "ignore", filepath.Join("..", "python", "shown.py"), dir)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("shown.py: %v\n%s", err, out)
	}
}

// partsOf returns the names of a sample's parts in its tar.
func partsOf(t *testing.T, g *harness.Gateway, name string, s harness.Sample) []string {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/0/samples?at=%d&shuffle=none&format=tar", name, s.Position)).Body))
	var names []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(h.Name[strings.LastIndexByte(h.Name, '/')+1:], ".")
		names = append(names, part)
	}
}

// TestFormats shows the dataset view, a batch and its samples for each format, as the format's
// libraries write it. Keys and positions equal those of the manifest, each part is visible, and axe
// finds nothing.
func TestFormats(t *testing.T) {
	store := harness.Open(t, "dir").With("XDG_CACHE_HOME=" + t.TempDir())
	written(t, store.Path)
	sets, args := shownSets(), []string{"--cache-size", "256MiB"}
	formats := map[string]bool{}
	for i, s := range sets {
		harness.MustRun(t, store, append([]string{"index", store.Dataset(s.name)}, s.args...)...)
		if i > 0 {
			args = append(args, "--dataset", s.name+"="+store.Dataset(s.name))
		}
		formats[s.format] = true
	}
	if got := len(formats); got != 12 {
		t.Errorf("got %d formats %v, want all 12 of docs/formats.md", got, slices.Sorted(maps.Keys(formats)))
	}
	g := harness.Serve(t, store, sets[0].name, args...)
	v := open(t).tab(t, g.URL)
	v.begin()
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			v.t = t
			began := time.Now()
			v.showsSet(g, s)
			v.clean(s.name)
			v.forget()
			t.Logf("figure: %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// showsSet visits the views of a dataset, and saves pictures of them.
func (v *tab) showsSet(g *harness.Gateway, s shownSet) {
	t := v.t
	t.Helper()
	plan := fmt.Sprintf("shuffle=none&batch_size=%d", s.tiles)
	found, batch := v.walks(s.name, "", plan), "/v1/datasets/"+s.name+"/epochs/0/batches/0"
	for _, fault := range found.Faults {
		t.Errorf("%.600s", fault)
	}
	for _, says := range s.says {
		if !strings.Contains(found.Said, says) {
			t.Errorf("want %q among what the page says: %.3000q", says, found.Said)
		}
	}
	var tiles []string
	for i, m := range g.Manifest(t, batch, "?"+plan) {
		tiles = append(tiles, fmt.Sprint(m.Position, " ", m.Key, " shown"))
		if want := partsOf(t, g, s.name, m); i < len(found.Parts) && !slices.Equal(found.Parts[i], want) {
			t.Errorf("sample %s: got parts %q, want %q", m.Key, found.Parts[i], want)
		}
	}
	if !slices.Equal(found.Tiles, tiles) || len(tiles) != s.tiles {
		t.Errorf("got tiles %q, want %q", found.Tiles, tiles)
	}
	v.size(1280, 1400, "light")
	for _, at := range []view{
		{"dataset", "/data/" + s.name, `document.querySelector("#find")`},
		{"batch", "/data/" + s.name + "/epochs/0/batches/0?" + plan, `document.querySelectorAll(".tile[data-state=shown]").length >= 8`},
		{"sample", "/data/" + s.name + "/epochs/0/batches/0?" + plan + "&sample=1", `document.querySelector("#panel .part") && document.querySelector(".occurrences table")`},
	} {
		what := "format-" + s.name + "-" + at.name
		v.do(chromedp.Navigate(v.base + "/#" + at.fragment))
		v.until("Boolean(" + at.there + ")")
		if at.name == "batch" {
			var n int
			if v.do(chromedp.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", s.seen), &n)); n < s.least {
				t.Errorf("got %d of %s, want %d", n, s.seen, s.least)
			}
		}
		v.judge(what)
		v.keep(what)
	}
	v.size(1280, 4000, "light")
}
