package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/provenance"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

// near returns the shape of a store with short waiting times, for the short forms, which only
// count.
func near() shaped.Shape { return shaped.Shape{FirstByte: 200 * time.Microsecond} }

// settle runs the short form of an experiment, and checks the marks that do not depend on the
// machine's speed.
func settle(t *testing.T, e lab.Experiment) *lab.Report {
	t.Helper()
	r, err := lab.Run(t.Context(), e, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, v := range r.Counted() {
		counted++
		if !v.Holds {
			t.Errorf("%s: got %s, want %s", e.Name, v.Found, v.Want)
		}
	}
	if counted == 0 {
		t.Errorf("%s: no mark is judged by counts", e.Name)
	}
	for _, i := range r.Items {
		if i.Figure != nil {
			if err := i.Figure.Draw(io.Discard); err != nil {
				t.Error(err)
			}
		}
	}
	return r
}

func TestBrand(t *testing.T) {
	settle(t, brand(brandSize{
		chunks: 128, each: 64, shape: near(), windows: []int{8}, lanes: []int{8, 16}, memory: 8, lruSamples: 512, fetchers: 8,
	}))
}

func TestExperimentsHaveNamesAndMarks(t *testing.T) {
	for _, e := range all() {
		for _, m := range e.Pass {
			if m.Fails == "" {
				t.Errorf("%s: no change is named that misses %q", e.Name, m.Name)
			}
		}
	}
	seen := map[string]bool{}
	for _, e := range all() {
		if seen[e.Name] || e.Name == "" || e.Title == "" || e.Claim == "" || len(e.Setting) == 0 || len(e.Arms) < 2 || len(e.Pass) == 0 {
			t.Errorf("%q: a name of its own, title, claim, setting, arms and marks are wanted", e.Name)
		}
		seen[e.Name] = true
	}
}

func TestShade(t *testing.T) {
	settle(t, shade(shadeSize{samples: 2560, each: 32, epochs: 4, caches: []float64{.1, .35}, repeat: 3}))
}

// clouds returns an artificial picture set: points around a center for each class.
func clouds(n int, seed uint64) *datasets.Set {
	const width = 24
	random := rand.New(rand.NewPCG(seed, 1))
	s := &datasets.Set{Width: width}
	for range n {
		class := random.IntN(datasets.Classes)
		for j := range width {
			v := random.NormFloat64()
			if j%datasets.Classes == class {
				v += 2
			}
			s.Pixels = append(s.Pixels, float32(v))
		}
		s.Class = append(s.Class, uint8(class))
	}
	return s
}

func made(train, test int) pictures {
	return pictures{"clouds", func() (*datasets.Set, *datasets.Set, error) { return clouds(train, 1), clouds(test, 2), nil }}
}

func TestLearn(t *testing.T) {
	settle(t, learn(learnSize{sets: []pictures{made(4096, 1024)}, epochs: 5, seeds: 1, cache: 0.1, repeat: 3}))
}

// TestNopfs uses a fake clock: prefetching during a reader's pause must not depend on the machine's
// speed.
func TestNopfs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		settle(t, nopfs(nopfsSize{chunks: 64, each: 32, shape: near(), window: 8, think: 2 * time.Millisecond}))
	})
}

func TestLocality(t *testing.T) {
	settle(t, locality(localitySize{
		samples: 1 << 16, learners: []int{4, 64}, local: []int{32, 64}, batches: 300,
		chunks: 512, each: 128, batch: 2048, lanes: 128, strata: 64, ranks: []uint64{3, 8, 64}, seeds: 1,
	}))
}

func TestCaches(t *testing.T) {
	settle(t, caches(cachesSize{
		items: 1024, each: 8, window: 16, epochs: 6, caches: []float64{.35, .65},
		chunks: 64, chunkSamples: 32, pathWindow: 8, shape: near(), jobs: []int{1, 2, 4}, apart: time.Millisecond, think: 2 * time.Millisecond,
	}))
}

func TestDiesel(t *testing.T) {
	settle(t, diesel(dieselSize{
		chunks: 64, each: 32, shape: near(), sizes: []int{4, 16}, files: 256, look: 20 * time.Millisecond,
		pictures: made(4096, 1024), pictureChunk: 32, windows: []float64{.1, .25}, slots: []float64{.1}, sliding: 0.1, epochs: 1, seeds: 1,
	}))
}

func TestLobster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		settle(t, lobster(lobsterSize{ // more chunks than the steps and two windows read; otherwise the first reads of the next epoch would count as repeats
			chunks: 112, each: 16, shape: near(), ranks: 4, fetchers: 8, window: 8, batch: 64, steps: 8, warm: 4,
			think: time.Millisecond, skews: []float64{.8}, rounds: 1,
		}))
	})
}

func TestPage_IsWhatTheFiguresMake(t *testing.T) {
	root, err := provenance.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := storedPage(root)
	if err != nil {
		t.Fatal(err)
	}
	pictures, err := draw(page)
	if err != nil {
		t.Fatal(err)
	}
	pictures["../experiments.md"] = []byte(page.Markdown())
	for name, want := range pictures {
		got, err := os.ReadFile(filepath.Join(root, "docs", "dev", "experiments", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/dev/experiments/%s is not what the figures make (%v): run make figures", name, err)
		}
	}
	for _, r := range page.Reports {
		for _, i := range r.Items {
			if i.Figure == nil {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, "docs", "dev", "experiments", r.File(i.Figure))); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRun_StoresWhatItFinds checks that a run stores the findings of its experiments, and that the
// pictures can be drawn from them.
func TestRun_StoresWhatItFinds(t *testing.T) {
	root, err := provenance.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Rel(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	small := shade(shadeSize{samples: 1024, each: 32, epochs: 3, caches: []float64{.2}, repeat: 3})
	if err := (options{out: dir}).do(t.Context(), []lab.Experiment{small}, "experiments -only shade", io.Discard); err != nil {
		t.Fatal(err)
	}
	found, err := provenance.Read[*lab.Report](filepath.Join(root, dir))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %d reports, %v; want 1", len(found), err)
	}
	r := found[0]
	if r.Measured.Command != "experiments -only shade" || r.Measured.Digest == "" || !r.Judged(small) || r.Judged(brand(fullBrand())) {
		t.Errorf("got %+v, want the marks of shade with their provenance", r)
	}
	if pictures, err := draw(&lab.Page{Reports: found}); err != nil || len(pictures) != 2 {
		t.Errorf("got %d pictures, %v; want 2", len(pictures), err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "nobody"}, {"-what"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}

func TestNodes(t *testing.T) {
	settle(t, nodes(nodesSize{chunks: 256, each: 32, lanes: 8, gateways: []int{1, 2, 4}, store: 200e6, rank: 400e6, link: 200e6, fast: 800e6}))
}

func TestTasks(t *testing.T) {
	settle(t, tasks(tasksSize{chunks: 64, each: 32, lanes: 16, gateways: 4, others: 2, shapes: []int{32, 64}, carried: []int{0, 1, 3}}))
}

func TestLosses(t *testing.T) { settle(t, losses()) }

func TestWorstRatio(t *testing.T) {
	lines := []string{"kill: p99 1.05 x of healthy; 3 chunks", "well: p99 2ms", "stop: p99 1.25 x of healthy"}
	if got := worstRatio(lines); got != 1.25 {
		t.Errorf("got %v, want 1.25", got)
	}
}

func TestCosts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := &datasets.Texts{Classes: 3}
	for range 1 << 13 {
		class := random.IntN(3)
		texts.Words, texts.Class = append(texts.Words, uint32(10+random.IntN(400)*(class+1))), append(texts.Class, uint8(class))
	}
	settle(t, costs(costsSize{
		samples: 1 << 15, sigmas: []float64{0.3, .9}, ranks: []int{8, 64}, few: 8, buckets: []uint64{8, 32},
		texts: []costSet{{name: "texts", open: func() (*datasets.Texts, error) { return texts, nil }}},
	}))
}
