package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/shuffle"
	"github.com/millrace-data/millrace/simulate"
)

// simulateFlags are the data, the job, and the lists of settings to try.
type simulateFlags struct {
	store   storeFlags
	loc     location
	samples uint64
	chunk   uint64
	size    int64

	base     simulate.Setting
	shuffle  string
	window   uint64
	seed     *uint64
	batch    uint64
	caches   []int64
	policies []string
	disks    []int64
	gateways []int
	picture  string
}

func (x *simulateFlags) define(f *flags) {
	s := &x.base
	f.whole(&x.samples, "samples", 0, "without a dataset: `N` samples, such as 1e9")
	f.whole(&x.chunk, "chunk-samples", 1000, "without a dataset: `N` samples in a chunk")
	f.size(&x.size, "sample-size", 100<<10, "without a dataset: `SIZE` of a sample")
	f.number(&s.Ranks, "ranks", 1, "`N` ranks of the job")
	f.rate(&s.Rate, "rate", "samples a second that all ranks together consume when they never wait, such as `3000/s`")
	f.count(&x.batch, "batch-size", 0, "`N` samples of a global batch (default the dataset's)")
	f.choice(&x.shuffle, "shuffle", "", "`SHUFFLE` (default the dataset's)", "none", "window", "slot", "full")
	f.count(&x.window, "window", 0, "`N` chunks or lanes (default the dataset's)")
	f.optional(&x.seed, "seed", "`SEED` of the order (default the dataset's)")
	f.number(&s.Epochs, "epochs", 2, "`N` epochs: the first finds the caches empty, the last one counts")
	f.number(&s.ReadAhead, "read-ahead", 2, "`N` batches that a rank asks for beyond the one that it computes on")
	f.factor(&s.Skew, "skew", 1, "think time of the slowest rank over that of the fastest one, a `FACTOR` from 1")
	f.sizes(&x.caches, "cache-size", nil, "`SIZES` of a gateway's memory budget, with commas between them")
	f.words(&x.policies, "cache-policy", []string{simulate.Plan}, "`POLICIES` with commas between them", simulate.Policies()...)
	f.sizes(&x.disks, "disk-cache-size", []int64{0}, "`SIZES` of a gateway's disk cache, 0 for none")
	f.bandwidth(&s.DiskRate, "disk-bandwidth", 2e9, "`RATE` of a gateway's disk")
	f.numbers(&x.gateways, "gateways", []int{1}, "`NUMBERS` of gateways, among which the ranks are shared out")
	f.number(&s.Fetchers, "fetchers", datapath.DefaultFetchers, "`N` store reads of a gateway side by side")
	f.size(&s.PartSize, "part-size", datapath.DefaultPartSize, "`SIZE` of one store read at most")
	f.bandwidth(&s.ServeRate, "serve-rate", 2e9, "`RATE` from one gateway to its ranks")
	f.bandwidth(&s.StoreRate, "store-bandwidth", 0, "`RATE` of all store reads together, such as 2GB/s (default no bound)")
	f.bandwidth(&s.StoreStream, "store-stream", 0, "`RATE` of one store read (default no bound)")
	f.duration(&s.FirstByte, "store-latency", 20*time.Millisecond, "`DURATION` to the first byte of a store read")
	f.text(&x.picture, "svg", "", "write a picture to `FILE`: the time of an epoch against the cache")
	x.store.define(f)
}

func (x *simulateFlags) check(f *flags, args []string) {
	switch {
	case len(args) > 1:
		f.fault("argument %q is one too many: want one dataset", args[1])
	case len(args) == 1 && x.samples > 0:
		f.fault("--samples %d: %s says how many there are", x.samples, hideSecrets(args[0]))
	case len(args) == 1:
		x.store.check(f)
		x.loc = one(f, args[0])
	case x.samples == 0:
		f.fault("want a dataset, or --samples, --chunk-samples and --sample-size")
	}
	if len(x.caches) == 0 {
		f.fault("--cache-size: want at least one size")
	}
	if x.base.Rate == 0 {
		f.fault("--rate: want the samples a second that the job consumes, such as 3000/s")
	}
	if n := len(x.caches) * len(x.policies) * len(x.disks) * len(x.gateways); n > 1000 {
		f.fault("%d settings: want 1000 at most", n)
	}
}

func (a *app) simulate() *cobra.Command {
	return a.build(command{
		use: "simulate [DATASET]", short: "Predict epoch time, reads and waiting for lists of settings", more: true,
		long: `Runs a job's order, the readers, the fetch queue and the cache policies of a gateway under a
clock of its own against a model of the store, and prints for every combination of the
lists how long an epoch takes, how long ranks wait, and which tier the bytes come from. A
dataset's index is all that is read of it; --samples, --chunk-samples and --sample-size
stand for one that does not exist yet.

What it leaves out: processor time, failures, other users of the store. See docs/simulate.md.`,
		example: `  millrace simulate s3://bucket/imagenet --ranks 8 --rate 3000/s --cache-size 16GiB,32GiB,64GiB --store-bandwidth 2GB/s
  millrace simulate --samples 1e9 --sample-size 110KB --ranks 64 --rate 50000/s --batch-size 4096 --cache-size 1TiB --disk-cache-size 0,20TiB --store-bandwidth 5GB/s
  millrace simulate s3://bucket/imagenet --rate 3000/s --cache-size 8GiB,16GiB --cache-policy lru,plan --gateways 1,2 --svg epochs.svg`,
		setup: func(f *flags) (func([]string), func(context.Context, []string) error) {
			var x simulateFlags
			x.define(f)
			f.output(a)
			check := func(args []string) { x.check(f, args) }
			return check, func(ctx context.Context, args []string) error { return a.runSimulate(ctx, &x) }
		},
	})
}

func (a *app) runSimulate(ctx context.Context, x *simulateFlags) error {
	data, err := x.data(ctx)
	if err != nil {
		return err
	}
	settings := x.settings()
	for i := range settings {
		if err := settings[i].Check(); err != nil {
			return &usageError{err, "millrace simulate"}
		}
		if least := settings[i].Least(data); settings[i].CacheSize < least {
			return &usageError{fmt.Errorf("--cache-size %s is too small: two chunks and a batch, %s, are the least",
				simulate.Size(settings[i].CacheSize), simulate.Bytes(least)), "millrace simulate"}
		}
	}
	results := make([]simulate.Result, len(settings))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range settings {
		g.Go(func() (err error) {
			results[i], err = simulate.Run(ctx, data, s)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if x.picture != "" {
		title := fmt.Sprintf("Time of an epoch, %s order, %s at %.6g samples/s", x.base.Order.Shuffle, count(x.base.Ranks, "rank", "ranks"), x.base.Rate)
		if err := os.WriteFile(x.picture, []byte(simulate.Picture(title, results)), 0o644); err != nil {
			return fmt.Errorf("write the picture: %w", err)
		}
	}
	advice := simulate.Advice(data, results)
	return a.print(simulation(results, advice), func(w io.Writer) { printSimulation(w, data, results, advice) })
}

// data is what is known of the dataset, and makes its defaults those of the job.
func (x *simulateFlags) data(ctx context.Context) (*simulate.Data, error) {
	def := chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 128, BatchSize: 256}
	var data *simulate.Data
	if x.samples > 0 {
		var err error
		if data, err = simulate.Uniform(x.samples, x.chunk, x.size); err != nil {
			return nil, &usageError{err, "millrace simulate"}
		}
	} else {
		d, err := openIndex(ctx, &x.store, x.loc, chunkindex.OpenOptions{})
		if err != nil {
			return nil, err
		}
		defer d.close()
		def, data = d.index.Defaults(), indexed(d.index)
		if data.Samples() == 0 {
			return nil, errors.New("the dataset has no samples")
		}
	}
	s := &x.base
	s.Order, s.BatchSize = shuffle.Params{Shuffle: def.Shuffle, Window: def.Window, Seed: def.Seed}, def.BatchSize
	if x.shuffle != "" {
		s.Order.Shuffle = x.shuffle
	}
	if x.window != 0 {
		s.Order.Window = x.window
	}
	if x.seed != nil {
		s.Order.Seed = *x.seed
	}
	if x.batch != 0 {
		s.BatchSize = x.batch
	}
	return data, nil
}

// indexed takes from an index what the model needs of it.
func indexed(x *chunkindex.Index) *simulate.Data {
	d := &simulate.Data{First: x.First(), Chunks: make([]simulate.Chunk, x.Chunks())}
	for i := range d.Chunks {
		e := x.Extents(i)[0]
		d.Chunks[i] = simulate.Chunk{Shard: e.Shard, Offset: e.Offset, Length: x.Chunk(i).Length}
	}
	return d
}

// settings multiplies the lists.
func (x *simulateFlags) settings() []simulate.Setting {
	var all []simulate.Setting
	for _, s := range x.gateways {
		for _, disk := range x.disks {
			for _, policy := range x.policies {
				for _, cache := range x.caches {
					one := x.base
					one.Gateways, one.DiskSize, one.Policy, one.CacheSize = s, disk, policy, cache
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// simulated is one row.
type simulated struct {
	Gateways  int              `json:"gateways"`
	CacheSize int64            `json:"cache_size"`
	Policy    string           `json:"cache_policy"`
	DiskSize  int64            `json:"disk_cache_size"`
	Peak      int64            `json:"peak_memory_bytes"`
	Coarse    string           `json:"approximation,omitempty"`
	Epochs    []simulatedEpoch `json:"epochs"`
}

type simulatedEpoch struct {
	Seconds float64         `json:"seconds"`
	Bound   string          `json:"bound"` // what limits it, and how fast it could be if nothing else did
	Least   float64         `json:"bound_seconds"`
	Reads   int64           `json:"store_reads"`
	Store   int64           `json:"store_bytes"`
	Disk    int64           `json:"disk_read_bytes"`
	Written int64           `json:"disk_written_bytes"`
	Served  int64           `json:"served_bytes"`
	Ratios  map[string]f3   `json:"tiers"` // of the bytes delivered
	Ranks   []simulatedRank `json:"ranks"`
}

type simulatedRank struct {
	Stall   f3  `json:"stall_seconds"`
	Longest f3  `json:"longest_stall_seconds"`
	Stalls  int `json:"stalls"`
}

// f3 is a figure to three decimals.
type f3 float64

// MarshalJSON implements json.Marshaler.
func (x f3) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(x)*1000)/1000, 'f', -1, 64), nil
}

func simulation(results []simulate.Result, advice []string) map[string]any {
	rows := make([]simulated, len(results))
	for i := range results {
		r := &results[i]
		s := &r.Setting
		rows[i] = simulated{Gateways: s.Gateways, CacheSize: s.CacheSize, Policy: s.Policy, DiskSize: s.DiskSize, Peak: r.Peak, Coarse: r.Coarse}
		for n := range r.Epochs {
			e := &r.Epochs[n]
			memory, disk, store := e.Tiers()
			b := r.Bounds(e)[0]
			row := simulatedEpoch{
				Seconds: e.Time.Seconds(), Bound: b.Name, Least: b.Time.Seconds(),
				Reads: e.Reads, Store: e.StoreBytes, Disk: e.DiskBytes, Written: e.DiskWrites, Served: e.Served,
				Ratios: map[string]f3{"memory": f3(memory), "disk": f3(disk), "store": f3(store)},
			}
			for _, k := range e.Ranks {
				row.Ranks = append(row.Ranks, simulatedRank{f3(k.Stall.Seconds()), f3(k.Longest.Seconds()), k.Stalls})
			}
			rows[i].Epochs = append(rows[i].Epochs, row)
		}
	}
	return map[string]any{"settings": rows, "advice": advice}
}

func printSimulation(w io.Writer, d *simulate.Data, results []simulate.Result, advice []string) {
	s := &results[0].Setting
	order := s.Order.Shuffle
	if usesWindow(order) {
		order += " " + strconv.FormatUint(s.Order.Window, 10)
	}
	fmt.Fprintf(w, "%s in %s, %s; %s order, batches of %d, %s at %.6g samples/s together\n", count(d.Samples(), "sample", "samples"),
		count(len(d.Chunks), "chunk", "chunks"), simulate.Bytes(d.Bytes()), order, s.BatchSize, count(s.Ranks, "rank", "ranks"), s.Rate)
	if c := results[0].Coarse; c != "" {
		fmt.Fprintf(w, "approximation: %s\n", c)
	}
	last := s.Epochs - 1
	fmt.Fprintf(w, "\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "gateways\tcache\tpolicy\tdisk\tepoch 0\tepoch %d\twaiting\treads\tstore\tmemory : disk : store\tpeak\tlimit\t\n", last)
	for i := range results {
		r := &results[i]
		e := r.Later()
		memory, disk, store := e.Tiers()
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%d\t%s\t%.0f : %.0f : %.0f %%\t%s\t%s\t\n",
			r.Setting.Gateways, simulate.Size(r.Setting.CacheSize), r.Setting.Policy, orNone(r.Setting.DiskSize),
			simulate.Span(r.Epochs[0].Time), simulate.Span(e.Time), 100*e.Waiting(), e.Reads, simulate.Bytes(e.StoreBytes),
			100*memory, 100*disk, 100*store, simulate.Bytes(r.Peak), r.Bounds(e)[0].Name)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s\n", strings.Join(advice, "\n"))
}

func orNone(size int64) string {
	if size == 0 {
		return "-"
	}
	return simulate.Size(size)
}
