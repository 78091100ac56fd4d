package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/integration/experiments/images"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// dieselSize is how large the experiment is.
type dieselSize struct {
	chunks, each int
	shape        shaped.Shape
	sizes        []int // W on the store
	files        int   // samples read file by file
	look         time.Duration

	pictures     pictures
	pictureChunk int
	windows      []float64 // shares of the chunks
	slots        []float64
	sliding      float64
	epochs       int
	seeds        int
}

func fullDiesel() dieselSize {
	return dieselSize{
		chunks: 512, each: 128, shape: distant(), sizes: []int{8, 16, 32, 64, 128, 256}, files: 8192, look: 2 * time.Second,
		pictures: pictures{"MNIST", images.MNIST}, pictureChunk: 128,
		windows: []float64{.02, 0.05, 0.1, 0.25, .5}, slots: []float64{.05, 0.1, .25}, sliding: 0.1, epochs: 3, seeds: 2,
	}
}

func diesel(z dieselSize) lab.Experiment {
	return lab.Experiment{
		Name:  "diesel",
		Title: "DIESEL and CorgiPile: chunk-wise shuffling, and metadata as a snapshot",
		Claim: "Shuffling chunks, then the samples of a group of chunks, turns random file reads into chunk reads without losing accuracy (DIESEL); windows of 2 to 10 % converge like a full shuffle, a sliding buffer does not (CorgiPile). Metadata in a snapshot scales linearly.",
		Setting: []string{
			fmt.Sprintf("store: %d chunks of %d samples of 4 KB, batches of %d, one cold epoch per W; memory for two windows and 16 chunks", z.chunks, z.each, batchSize),
			distantText,
			fmt.Sprintf("file by file: %d samples, each an object of its own size behind the same store, 12 reads side by side", z.files),
			fmt.Sprintf("learning: %s sorted by class; %s; a constant rate, and one that falls in a straight line to 0", z.pictures.name, modelsText),
			"models, rates and schedules were fixed before the first run and are those of the experiment learn",
			"metadata: names of random samples looked up in the opened index, against one HEAD per file behind the same store, 16 side by side",
		},
		Arms: []lab.Arm{
			{Name: "file", What: "one read per sample"},
			{Name: "window W", What: "the product's chunk-wise shuffle"},
			{Name: "slot M", What: "the product's other one, for accuracy"},
			{Name: "sliding buffer", What: "data in stored order through a buffer that gives one of its samples at random for each that comes"},
			{Name: "full, none", What: "the two ends"},
		},
		Pass: []lab.Mark{
			{Name: "reads", Want: "at most N store reads for every W, 0 samples twice, 0 missing"},
			{Name: "files", Want: "file by file at least 2 x slower than every window", Measured: true},
			{Name: "loss", Want: "from a window of 25 % on: less than a point under `full`, with every model and schedule", Measured: true},
			{Name: "corgi", Want: "softmax regression, window of 10 %: less than a point under `full`", Measured: true},
			{Name: "sliding", Want: "a sliding buffer at least 3 points under the window of its size, with every model and schedule", Measured: true},
			{Name: "head", Want: "look-ups by name, one core: at least 10 x the HEADs of 16 side by side", Measured: true},
			{Name: "cores", Want: "look-ups grow with the cores: n cores at least 0.8 n x one", Measured: true},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z dieselSize) run(ctx context.Context, r *lab.Report) error {
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened for reading only
	if err := z.sweep(ctx, r, d); err != nil {
		return err
	}
	if err := z.names(ctx, r, d); err != nil {
		return err
	}
	return z.study(ctx, r)
}

// sweep reads an epoch with each window.
func (z dieselSize) sweep(ctx context.Context, r *lab.Report, d *data) error {
	order, err := fullOrder(d)
	if err != nil {
		return err
	}
	file, err := d.perSample(ctx, order[:min(z.files, len(order))], datapath.DefaultFetchers)
	if err != nil {
		return err
	}
	r.Logf("file by file: %.0f samples/s", file.rate())
	t := r.Table("One cold epoch.", "arm", "store reads", "reads a sample", "peak MiB", "samples/s", "x file by file", "variance")
	t.Row("file", file.reads, 1, float64(file.peak)/(1<<20), file.rate(), 1, 1)
	speed := &lab.Figure{Name: "speed", Title: "Window size and speed", X: "W, chunks", Y: "samples/s", LogX: true}
	spread := &lab.Figure{Name: "variance", Title: "Window size and batch variance, data sorted by class", X: "W, chunks", Y: "variance / independent draws", LogX: true, LogY: true}
	var xs, rates, measured, formula []float64
	reads, most, least := true, int64(0), 0.0
	for _, w := range z.sizes {
		p := shuffle.Params{Shuffle: shuffle.Window, Window: uint64(w)}
		got, err := z.window(ctx, d, p)
		if err != nil {
			return fmt.Errorf("window %d: %w", w, err)
		}
		r.Logf("window %d: %d reads, %.0f samples/s", w, got.reads, got.rate())
		t.Row(fmt.Sprintf("window %d", w), got.reads, float64(got.reads)/float64(got.samples), float64(got.peak)/(1<<20), got.rate(), got.rate()/file.rate(), got.spread)
		most = max(most, got.reads)
		reads = reads && got.reads <= int64(z.chunks) && got.twice == 0 && got.never == 0
		if least == 0 || got.rate()/file.rate() < least {
			least = got.rate() / file.rate()
		}
		xs, rates, measured = append(xs, float64(w)), append(rates, got.rate()), append(measured, got.spread)
		formula = append(formula, max(batchVariance(p, z.chunks, z.each), 0.01))
	}
	speed.Lines = []lab.Line{{Name: "window", X: xs, Y: rates}, {Name: "file by file", X: []float64{xs[0], xs[len(xs)-1]}, Y: []float64{file.rate(), file.rate()}, Dashed: true}}
	spread.Lines = []lab.Line{{Name: "measured", X: xs, Y: measured}, {Name: "formula", X: xs, Y: formula, Dashed: true}}
	r.Add(speed)
	r.Add(spread)
	r.Judge("reads", reads, fmt.Sprintf("%d of %d at the most", most, z.chunks), "chunks were read more than once")
	r.Judge("files", least >= 2, fmt.Sprintf("%.3g x at the least", least), "the table says which window")
	return nil
}

func (z dieselSize) window(ctx context.Context, d *data, p shuffle.Params) (*reading, error) {
	g, err := d.open(ctx, datapath.Config{}, d.room(min(2*int(p.Window), d.chunks)+16))
	if err != nil {
		return nil, err
	}
	got, err := g.read(ctx, job{params: p})
	if stopped := g.stop(); err == nil {
		err = stopped
	}
	return got, err
}

// names measures look-ups by name, with more and more cores, and HEADs.
func (z dieselSize) names(ctx context.Context, r *lab.Report, d *data) error {
	heads, err := rate(ctx, 16, z.look, func(random *rand.Rand) error {
		ref, _ := d.ref(random.IntN(d.samples()))
		_, err := d.store.Stat(ctx, ref.Key)
		return err
	})
	if err != nil {
		return err
	}
	t := r.Table("Look-ups per second by name.", "arm", "per second", "x one core")
	t.Row("HEAD, 16 side by side", heads, "-")
	var one float64
	scales, found := true, ""
	for cores := 1; cores <= runtime.NumCPU(); cores *= 2 {
		n, err := rate(ctx, cores, z.look, func(random *rand.Rand) error {
			want := random.IntN(d.samples())
			got, ok, err := d.index.Lookup(ctx, sampleKey(want), "")
			if err == nil && (!ok || got != uint64(want)) {
				err = fmt.Errorf("look up %s: got sample %d (%v), want %d", sampleKey(want), got, ok, want)
			}
			return err
		})
		if err != nil {
			return err
		}
		if cores == 1 {
			one = n
		}
		r.Logf("%d cores: %.0f look-ups/s", cores, n)
		t.Row(fmt.Sprintf("index, %d cores", cores), n, n/one)
		if cores > 1 {
			scales = scales && n >= .8*float64(cores)*one
			found += fmt.Sprintf("%d cores %.3g x ", cores, n/one)
		}
	}
	r.Judge("head", one >= 10*heads, fmt.Sprintf("%.3g x", one/heads), "a look-up reads the index from a file, and that was slow")
	r.Judge("cores", scales, found+"one", "the collector and the other arms of the machine take part of the second core")
	return nil
}

// sampleKey is the key that an index gives to a sample: its name without the extension.
func sampleKey(i int) string { return fmt.Sprintf("%08d", i) }

// rate returns how often a second do is done, by so many side by side.
func rate(ctx context.Context, sideBySide int, span time.Duration, do func(*rand.Rand) error) (float64, error) {
	var done atomic.Int64
	var mu sync.Mutex // guards failure
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for i := range sideBySide {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 5))
			for time.Since(begun) < span && ctx.Err() == nil {
				if err := do(random); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if failure == nil {
		failure = ctx.Err()
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), failure
}
