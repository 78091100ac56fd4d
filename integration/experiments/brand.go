package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/integration/experiments/replay"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// brandSize is the size of the experiment; the short form only has smaller numbers.
type brandSize struct {
	chunks, each int
	shape        shaped.Shape
	windows      []int // W
	lanes        []int // M
	memory       int   // chunks that LRU and redirection may hold
	lruSamples   int   // samples of the epoch for which LRU is timed
	fetchers     int
}

func fullBrand() brandSize {
	return brandSize{
		chunks: 512, each: 128, shape: distant(), windows: []int{16, 32, 64}, lanes: []int{8, 16, 32, 64, 128},
		memory: 32, lruSamples: 16384, fetchers: 16,
	}
}

// brandArm is one row of the table.
type brandArm struct {
	name   string
	memory int // chunks that the arm must hold
	lanes  int // lanes of a slot order; 0: another arm
	reading
}

func brand(z brandSize) lab.Experiment {
	samples := z.chunks * z.each
	return lab.Experiment{
		Name:  "brand",
		Title: "Brand (Redox): random access that reads whole chunks, each once",
		Claim: "The loader reads storage only in chunks. It may answer a request for one sample with another, so that a loaded chunk is consumed completely and never loaded twice. Up to 4.57 x faster end to end than PyTorch.",
		Setting: []string{
			fmt.Sprintf("%d chunks of %d samples of 4 KB (%d KiB a chunk, %d MiB in total), batches of %d, one cold epoch per arm", z.chunks, z.each, z.each*sampleBytes>>10, samples*sampleBytes>>20, batchSize),
			distantText,
			fmt.Sprintf("every arm has %d concurrent store reads and requests one batch after the other", z.fetchers),
			"a read of one 4 KB sample takes 20 ms, of which the transfer takes 0.05 ms: latency is the limit",
		},
		Arms: []lab.Arm{
			{Name: "GET", What: "one ranged read per sample, in the order of `full`: the usual way without Millrace"},
			{Name: "LRU", What: fmt.Sprintf("whole chunks in an LRU cache of %d under `full`; a replay counts the reads of the whole epoch; timed on its first %d samples", z.memory, z.lruSamples)},
			{Name: "redirection", What: fmt.Sprintf("the published protocol and its session, %d slots; loads of one batch are concurrent", z.memory)},
			{Name: "window W", What: "Millrace, a window of W chunks"},
			{Name: "slot M", What: "Millrace, M lanes"},
		},
		Pass: []lab.Mark{
			{Name: "reads", Want: "`slot`: at most N + M - 1 store reads; `window`: at most N. Bytes: at least all, at most 5 % more than that number of chunks (one read may load several)", Fails: "read a chunk once for each lane that has a piece of it"},
			{Name: "once", Want: "0 duplicate samples, 0 missing, in every arm", Fails: "end a lane one sample early"},
			{Name: "speed", Want: "`slot`, every M: at least 3 x the samples/s of the published protocol", Fails: "disable read-ahead", Measured: true},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z brandSize) run(ctx context.Context, r *lab.Report) error {
	r.Logf("writing %d chunks", z.chunks)
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	var arms []brandArm
	for _, f := range []func(context.Context, *data) (brandArm, error){z.get, z.lru, z.redirect} {
		a, err := f(ctx, d)
		if err != nil {
			return err
		}
		r.Logf("%s: %d reads, %.0f samples/s in %s", a.name, a.reads, a.rate(), a.took.Round(time.Millisecond))
		arms = append(arms, a)
	}
	var orders []shuffle.Params
	for _, w := range z.windows {
		orders = append(orders, shuffle.Params{Shuffle: shuffle.Window, Window: uint64(w)})
	}
	for _, m := range z.lanes {
		orders = append(orders, shuffle.Params{Shuffle: shuffle.Slot, Window: uint64(m)})
	}
	for _, p := range orders {
		a, err := z.ours(ctx, d, p)
		if err != nil {
			return fmt.Errorf("%s %d: %w", p.Shuffle, p.Window, err)
		}
		r.Logf("%s: %d reads, %.0f samples/s in %s", a.name, a.reads, a.rate(), a.took.Round(time.Millisecond))
		arms = append(arms, a)
	}
	z.report(r, arms)
	return nil
}

// get reads one sample after another.
func (z brandSize) get(ctx context.Context, d *data) (brandArm, error) {
	order, err := fullOrder(d)
	if err != nil {
		return brandArm{}, err
	}
	a := brandArm{name: "GET"}
	a.reading, err = d.perSample(ctx, order, z.fetchers)
	return a, err
}

// perSample reads some samples with one ranged read each, and with the given number of parallel
// reads.
func (d *data) perSample(ctx context.Context, order []uint64, sideBySide int) (reading, error) {
	c := newCensus(d.chunks, d.each)
	d.store.Reset()
	begun := time.Now()
	var next atomic.Int64
	workers, ctx := errgroup.WithContext(ctx)
	for range sideBySide {
		workers.Go(func() error {
			buf := make([]byte, sampleBytes)
			for i := next.Add(1) - 1; i < int64(len(order)); i = next.Add(1) - 1 {
				ref, at := d.ref(int(order[i]))
				if err := d.store.ReadRange(ctx, ref, at, buf); err != nil {
					return err
				}
				if got := numberOf(buf); got != order[i] {
					return fmt.Errorf("got sample %d, want %d", got, order[i])
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return reading{}, err
	}
	took := time.Since(begun)
	for batch := range slices.Chunk(order, batchSize) {
		c.note(batch)
	}
	return d.counted(c, took, int64(sideBySide)*sampleBytes), nil
}

// counted returns the reading of an arm from the store's counters since their reset.
func (d *data) counted(c *census, took time.Duration, peak int64) reading {
	s := d.store.Stats()
	return reading{
		took: took, samples: c.total, twice: c.twice(), never: c.never(), spread: c.spread(),
		reads: s.Reads, bytes: s.BytesRead, peak: peak,
	}
}

func fullOrder(d *data) ([]uint64, error) {
	p, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Full}, d.index.First())
	if err != nil {
		return nil, err
	}
	return p.Epoch(0).Append(nil, 0, p.Samples()), nil
}

// loadChunks reads chunks in parallel and discards them.
func (d *data) loadChunks(ctx context.Context, chunks []int, sideBySide int) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(sideBySide)
	for _, c := range chunks {
		workers.Go(func() error {
			ref, at := d.ref(c * d.each)
			return d.store.ReadRange(ctx, ref, at, make([]byte, d.chunkBytes()))
		})
	}
	return workers.Wait()
}

// lru caches whole chunks under an order without chunk locality.
func (z brandSize) lru(ctx context.Context, d *data) (brandArm, error) {
	a := brandArm{name: "LRU", memory: z.memory}
	order, err := fullOrder(d)
	if err != nil {
		return a, err
	}
	c := newCensus(d.chunks, d.each)
	shelf := replay.LRU[int](int64(z.memory))
	var loads, most int64
	d.store.Reset()
	begun := time.Now()
	for batch := range slices.Chunk(order, batchSize) {
		var missing []int
		for _, s := range batch {
			chunk := int(s) / d.each
			if shelf.Lease(chunk) {
				shelf.Release(chunk)
				continue
			}
			missing = append(missing, chunk)
			shelf.Bring(chunk, 1, 0)
		}
		loads += int64(len(missing))
		if c.total < z.lruSamples {
			// the chunks in the cache, and those being read in parallel
			most = max(most, int64(z.memory+min(z.fetchers, len(missing))))
			if err := d.loadChunks(ctx, missing, z.fetchers); err != nil {
				return a, err
			}
			a.took = time.Since(begun)
			a.samples += len(batch)
		}
		c.note(batch)
	}
	timed, n := a.took, a.samples
	a.reading = d.counted(c, timed, most*d.chunkBytes())
	a.samples, a.reads, a.bytes = n, loads, loads*d.chunkBytes()
	return a, nil
}

// redirect runs the protocol of the paper.
func (z brandSize) redirect(ctx context.Context, d *data) (brandArm, error) {
	a := brandArm{name: "redirection", memory: z.memory}
	order := rand.New(rand.NewPCG(1, 1)).Perm(d.samples())
	session := published.NewRedirection(d.chunks, d.each, z.memory)
	c := newCensus(d.chunks, d.each)
	d.store.Reset()
	var most int64
	begun := time.Now()
	for batch := range slices.Chunk(order, batchSize) {
		var loads []int
		answers := make([]uint64, len(batch))
		for i, s := range batch {
			answer, load := session.Ask(s)
			if answers[i] = uint64(answer); load >= 0 {
				loads = append(loads, load)
			}
		}
		// A slot's old chunk is needed until the batch is complete.
		most = max(most, int64(z.memory+len(loads)))
		if err := d.loadChunks(ctx, loads, z.fetchers); err != nil {
			return a, err
		}
		c.note(answers)
	}
	a.reading = d.counted(c, time.Since(begun), most*d.chunkBytes())
	return a, nil
}

// ours reads one epoch with the product.
func (z brandSize) ours(ctx context.Context, d *data, p shuffle.Params) (brandArm, error) {
	a := brandArm{name: fmt.Sprintf("%s %d", p.Shuffle, p.Window), memory: d.needs(p)}
	if p.Shuffle == shuffle.Slot {
		a.lanes = int(p.Window)
	}
	g, err := d.open(ctx, datapath.Config{Fetchers: z.fetchers}, d.room(a.memory))
	if err != nil {
		return a, err
	}
	got, err := g.read(ctx, job{params: p})
	if stopped := g.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return a, err
	}
	a.reading = *got
	return a, nil
}

// needs returns the number of chunks that an order needs at one time, according to the plan's
// description.
func (d *data) needs(p shuffle.Params) int {
	lengths := make([]uint64, d.chunks)
	for i := range lengths {
		lengths[i] = 1
	}
	return int(shuffle.Memory(p, lengths))
}

func (z brandSize) report(r *lab.Report, arms []brandArm) {
	t := r.Table("One cold epoch.", "arm", "chunks held", "store reads", "bytes / data", "twice", "missing", "peak MiB", "samples/s", "x GET", "variance")
	total := float64(z.chunks * z.each * sampleBytes)
	get := arms[0].rate()
	protocol := arms[slices.IndexFunc(arms, func(a brandArm) bool { return a.name == "redirection" })].rate()
	reads, once, speed, slowest := true, true, true, 0.0
	for _, a := range arms {
		held := "-"
		if a.memory > 0 {
			held = fmt.Sprint(a.memory)
		}
		t.Row(a.name, held, a.reads, float64(a.bytes)/total, a.twice, a.never, float64(a.peak)/(1<<20), a.rate(), a.rate()/get, a.spread)
		once = once && a.twice == 0 && a.never == 0
		if a.lanes > 0 {
			reads = reads && z.thrifty(a, z.chunks+a.lanes-1)
			speed = speed && a.rate() >= 3*protocol
			if slowest == 0 || a.rate()/protocol < slowest {
				slowest = a.rate() / protocol
			}
		} else if a.name[0] == 'w' {
			reads = reads && z.thrifty(a, z.chunks)
		}
	}
	r.Note("Peak is the most memory that the arm held, including chunks in flight. For Millrace it is the most that its budget ever lent. The budget was the number of chunks in the plan's description, divided by 0.7 (the rest is for bodies and tables), and four batches. Variance is that of a class's share in a batch of data sorted by class, relative to independent draws (1). It was computed from the batches read. In theory, a cut chunk of a slot order takes two ranged reads. The data path reads a cut chunk completely, and reads it again only if it was evicted in the meantime.")
	z.figures(r, arms)
	r.Judge("reads", reads, z.readsFound(arms))
	r.Judge("once", once, fmt.Sprintf("%d arms, each sample checked", len(arms)))
	r.Judge("speed", speed, fmt.Sprintf("minimum %.3g x", slowest))
}

// thrifty reports whether an arm has read all data, with at most the given number of reads. It
// allows 5 % more bytes than this number of chunks contains. Of few chunks, as in tests, it allows 16
// chunks more: on a busy machine, chunks that were read together are evicted before their use.
func (z brandSize) thrifty(a brandArm, most int) bool {
	chunk := float64(z.each * sampleBytes)
	limit := float64(most) + max(0.05*float64(most), 16)
	return a.reads <= int64(most) && float64(a.bytes) >= chunk*float64(z.chunks) && float64(a.bytes) <= limit*chunk
}

func (z brandSize) readsFound(arms []brandArm) string {
	chunks := z.chunks
	s := ""
	for _, a := range arms {
		if a.lanes > 0 || a.name[0] == 'w' {
			if s != "" {
				s += ", "
			}
			s += fmt.Sprintf("%s %+d (%.3f x the bytes)", a.name, a.reads-int64(chunks), float64(a.bytes)/(float64(chunks)*float64(z.each*sampleBytes)))
		}
	}
	return "reads beyond N: " + s
}

func (z brandSize) figures(r *lab.Report, arms []brandArm) {
	rate := &lab.Figure{Name: "speed", Title: "Samples per second of a cold epoch", X: "peak MiB", Y: "samples/s", LogX: true, LogY: true}
	spread := &lab.Figure{Name: "variance", Title: "Batch variance on data sorted by class", X: "peak MiB", Y: "variance / independent draws", LogX: true, LogY: true}
	lines := map[string]*lab.Line{}
	names := []string{"GET", "LRU", "redirection", "window", "slot"}
	add := func(f *lab.Figure, of func(brandArm) float64) {
		for _, n := range names {
			lines[n] = &lab.Line{Name: n}
		}
		for _, a := range arms {
			for _, n := range names {
				if len(a.name) >= len(n) && a.name[:len(n)] == n {
					lines[n].X = append(lines[n].X, float64(a.peak)/(1<<20))
					lines[n].Y = append(lines[n].Y, of(a))
				}
			}
		}
		for _, n := range names {
			f.Lines = append(f.Lines, *lines[n])
		}
		r.Figure(f)
	}
	add(rate, func(a brandArm) float64 { return a.rate() })
	add(spread, func(a brandArm) float64 { return a.spread })
}
