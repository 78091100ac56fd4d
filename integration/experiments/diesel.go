package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// dieselSize is the size of the experiment.
type dieselSize struct {
	chunks, each int
	shape        shaped.Shape
	sizes        []int // W for reads from the store
	files        int   // number of samples in the arm that reads file by file
	look         time.Duration

	pictures     pictures
	pictureChunk int
	windows      []float64 // fractions of the chunks
	slots        []float64
	sliding      float64
	epochs       int
	seeds        int
}

func fullDiesel() dieselSize {
	return dieselSize{
		chunks: 512, each: 128, shape: distant(), sizes: []int{8, 16, 32, 64, 128, 256}, files: 8192, look: 2 * time.Second,
		pictures: pictures{"MNIST", datasets.MNIST}, pictureChunk: 128,
		windows: []float64{.02, 0.05, 0.1, 0.25, .5}, slots: []float64{.05, 0.1, .25}, sliding: 0.1, epochs: 3, seeds: 2,
	}
}

func diesel(z dieselSize) lab.Experiment {
	return lab.Experiment{
		Name:  "diesel",
		Title: "DIESEL and CorgiPile: chunk-wise shuffling and metadata snapshots",
		Claim: "Shuffling chunks, then the samples of a group of chunks, turns random file reads into chunk reads without losing accuracy (DIESEL). Windows of 2 to 10 % converge like a full shuffle; a sliding buffer does not (CorgiPile). Metadata in a snapshot scales linearly.",
		Setting: []string{
			fmt.Sprintf("store: %d chunks of %d samples of 4 KB, batches of %d, one cold epoch per W. Memory for two windows and 16 chunks", z.chunks, z.each, batchSize),
			distantText,
			fmt.Sprintf("file by file: %d samples, each a separate object in the same store, 12 concurrent reads", z.files),
			fmt.Sprintf("learning: %s sorted by class; %s. The rate is constant, or falls linearly to 0", z.pictures.name, modelsText),
			"models, rates and schedules were fixed before the first run, as in the experiment learn",
			"metadata: names of random samples looked up in the opened index. The baselines are one HEAD per file in the same store, 16 concurrent, and reads of 4 KB at random offsets of a file of 64 MB",
		},
		Arms: []lab.Arm{
			{Name: "file", What: "one read per sample"},
			{Name: "straight", What: "whole chunks, with as many concurrent reads as Millrace, discarded: the store's throughput"},
			{Name: "window W", What: "Millrace's chunk-wise shuffle"},
			{Name: "slot M", What: "Millrace's other shuffle, for accuracy"},
			{Name: "sliding buffer", What: "data in stored order through a buffer that returns a random sample for each new one"},
			{Name: "full, none", What: "the two extremes"},
		},
		Pass: []lab.Mark{
			{Name: "reads", Want: "at most N store reads for every W, at least all bytes and at most 5 % more; 0 duplicate samples, 0 missing", Fails: "evict a chunk whose samples have not all been served"},
			{Name: "files", Want: "every window: at least 0.8 x the samples/s of whole chunks read with the same concurrency and discarded", Fails: "disable read-ahead", Measured: true},
			{Name: "loss", Want: "windows of 25 % and more: less than a point below `full`, with every model and schedule", Fails: "no shuffle inside a window", Measured: true},
			{Name: "corgi", Want: "softmax regression, window of 10 %: less than a point below `full`", Fails: "no shuffle inside a window", Measured: true},
			{Name: "sliding", Want: "a sliding buffer at least 3 points below the window of its size, with every model and schedule", Fails: "give the sliding buffer the whole dataset", Measured: true},
			{Name: "head", Want: "look-ups by name, one core: each takes at most as long as 50 reads of 4 KB from a file on this machine", Fails: "read the whole table of names for each look-up", Measured: true},
			{Name: "cores", Want: "look-ups scale with the cores: n cores at least 0.8 n x one", Fails: "protect look-ups with a mutex", Measured: true},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z dieselSize) run(ctx context.Context, r *lab.Report) error {
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	if err := z.sweep(ctx, r, d); err != nil {
		return err
	}
	if err := z.names(ctx, r, d); err != nil {
		return err
	}
	return z.study(ctx, r)
}

// sweep reads an epoch with each window size.
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
	straight, err := d.straight(ctx)
	if err != nil {
		return err
	}
	t := r.Table("One cold epoch.", "arm", "store reads", "reads per sample", "peak MiB", "samples/s", "x file by file", "x straight", "variance")
	t.Row("file", file.reads, 1, float64(file.peak)/(1<<20), file.rate(), 1, file.rate()/straight, 1)
	t.Row("straight", z.chunks, 1/float64(z.each), "-", straight, straight/file.rate(), 1, "-")
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
		t.Row(fmt.Sprintf("window %d", w), got.reads, float64(got.reads)/float64(got.samples), float64(got.peak)/(1<<20), got.rate(), got.rate()/file.rate(), got.rate()/straight, got.spread)
		most = max(most, got.reads)
		reads = reads && got.reads <= int64(z.chunks) && got.bytes >= d.bytes() && float64(got.bytes) <= 1.05*float64(d.bytes()) && got.twice == 0 && got.never == 0
		if least == 0 || got.rate()/straight < least {
			least = got.rate() / straight
		}
		xs, rates, measured = append(xs, float64(w)), append(rates, got.rate()), append(measured, got.spread)
		formula = append(formula, max(batchVariance(p, z.chunks, z.each), 0.01))
	}
	speed.Lines = []lab.Line{{Name: "window", X: xs, Y: rates}, {Name: "file by file", X: []float64{xs[0], xs[len(xs)-1]}, Y: []float64{file.rate(), file.rate()}, Dashed: true}}
	spread.Lines = []lab.Line{{Name: "measured", X: xs, Y: measured}, {Name: "formula", X: xs, Y: formula, Dashed: true}}
	r.Figure(speed)
	r.Figure(spread)
	r.Judge("reads", reads, fmt.Sprintf("maximum %d of %d", most, z.chunks))
	r.Judge("files", least >= 0.8, fmt.Sprintf("minimum %.3g x", least))
	return nil
}

// straight reads all chunks, discards them, and returns the rate in samples per second.
func (d *data) straight(ctx context.Context) (float64, error) {
	all := make([]int, d.chunks)
	for i := range all {
		all[i] = i
	}
	begun := time.Now()
	err := d.loadChunks(ctx, all, datapath.DefaultFetchers)
	return float64(d.samples()) / time.Since(begun).Seconds(), err
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

// names measures lookups by name, with increasing numbers of cores, and HEAD requests.
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
	t.Row("HEAD, 16 concurrent", heads, "-")
	pages, err := z.pages(ctx)
	if err != nil {
		return err
	}
	t.Row("reads of 4 KB of a file, one core", pages, "-")
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
	r.Judge("head", one >= pages/50, fmt.Sprintf("%.3g reads", pages/one))
	r.Judge("cores", scales && found != "", found+"one")
	return nil
}

// pages returns how many random reads of 4 KB one core makes per second from a file in the page
// cache.
func (z dieselSize) pages(ctx context.Context) (float64, error) {
	const page, pages = 4096, 1 << 14
	f, err := os.CreateTemp("", "millrace-pages-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // a temporary file
	defer f.Close()           // read only
	if _, err := f.Write(make([]byte, page*pages)); err != nil {
		return 0, err
	}
	buf := make([]byte, page)
	return rate(ctx, 1, z.look, func(random *rand.Rand) error {
		_, err := f.ReadAt(buf, random.Int64N(pages)*page)
		return err
	})
}

// sampleKey returns a sample's key in the index: its name without the extension.
func sampleKey(i int) string { return fmt.Sprintf("%08d", i) }

// rate returns how often per second the given number of parallel workers can call do.
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
