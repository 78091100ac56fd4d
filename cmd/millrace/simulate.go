package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/cmd/internal/predictions"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// simulateFlags describe the data, the job, and the lists of settings to try.
type simulateFlags struct {
	store   location.Stores
	loc     location.Location
	samples uint64
	chunk   uint64
	size    int64

	base     simulate.Setting
	order    client.Options
	caches   []int64
	policies []string
	disks    []int64
	gateways []int
	share    string
}

func (x *simulateFlags) define(f *cli.Flags) {
	s := &x.base
	f.Count(&x.samples, "samples", 0, "without a dataset: number of samples, such as 1e9")
	f.Count(&x.chunk, "chunk-samples", 1000, "without a dataset: samples per chunk")
	f.Size(&x.size, "sample-size", 100<<10, "without a dataset: size of a sample")
	f.Number(&s.Ranks, "world-size", 0, 1, "number of ranks of the job")
	x.model(f)
	parameterFlags(f, &x.order, address.Order|address.Batching, "tail")
	f.Number(&s.Epochs, "epochs", 0, 2, "epochs to simulate, the first with empty caches")
	f.Number(&s.ReadAhead, "read-ahead", 0, 2, "batches that a rank requests ahead of the current one")
	f.Real(&s.Skew, "skew", "FACTOR", "", 1, 1e6, 1, "time per sample of the slowest rank divided by that of the fastest")
	f.Sizes(&x.caches, "cache-size", nil, "`SIZE,...` memory of a gateway's cache")
	f.Texts(&x.policies, "cache-policy", []string{policy.Plan}, "`POLICY,...` eviction policies to compare: lru, plan or both", policy.Names()...)
	f.Bandwidth(&s.DiskRate, "disk-bandwidth", 2e9, "bytes per second of a gateway's disk")
	f.Numbers(&x.gateways, "gateways", []int{1}, "`N,...` gateway counts to simulate, 1 to 1000; the gateways share the ranks")
	f.Flag(&s.Alone, "no-cluster", "gateways share nothing: each has its own cache")
	f.Choice(&x.share, "share", "contiguous", "how a batch is divided among ranks", "contiguous", "locality")
	f.Flag(&s.RanksNear, "ranks-near", "each rank runs on the machine of its gateway, and does not use the link")
	f.Duration(&s.PeerLatency, "peer-latency", 200*time.Microsecond, "latency of a request to another gateway")
	f.Number(&s.Fetchers, "parallel", 0, datapath.DefaultFetchers, "concurrent store reads of a gateway")
	f.Size(&s.PartSize, "part-size", datapath.DefaultPartSize, "maximum size of one store read")
	f.Bandwidth(&s.ServeRate, "serve-rate", 2e9, "bytes per second from one gateway to its ranks")
	f.Bandwidth(&s.StoreStream, "store-stream", 0, "bytes per second of one store read (default unlimited)")
	f.Duration(&s.FirstByte, "store-latency", 20*time.Millisecond, "time to the first byte of a store read")
}

// model defines the flags that plan has too.
func (x *simulateFlags) model(f *cli.Flags) {
	s := &x.base
	f.Real(&s.Rate, "rate", "RATE", "/s", 0, 1e12, 0, "samples per second of all ranks if none waits for data, such as 3000/s")
	f.Sizes(&x.disks, "disk-cache-size", []int64{0}, "`SIZE,...` size of a gateway's disk cache, 0 for none")
	f.Bandwidth(&s.LinkRate, "link", 0, "bandwidth of a gateway's link, such as 100Gbit/s (default unlimited)")
	f.Bandwidth(&s.StoreRate, "store-bandwidth", 0, "bytes per second of all store reads, such as 2GB/s (default unlimited)")
}

func (x *simulateFlags) check(f *cli.Flags, args []string) {
	switch {
	case len(args) == 1 && x.samples > 0:
		f.Fault("--samples %d: cannot be combined with a dataset: %s has its own number of samples", x.samples, location.HideSecrets(args[0]))
	case len(args) == 1:
		x.loc = one(f, args[0])
	case x.samples == 0:
		f.Fault("a dataset is required, or --samples, --chunk-samples and --sample-size")
	}
	if len(x.caches) == 0 && f.Missing("cache-size") {
		f.Fault("--cache-size SIZE,... is required")
	}
	if x.base.Rate == 0 && f.Missing("rate") {
		f.Fault("--rate RATE is required: samples per second that the job consumes, such as 3000/s")
	}
	x.limit(f)
}

// limit limits the number of settings, for each order.
func (x *simulateFlags) limit(f *cli.Flags) {
	if n := len(x.caches) * len(x.policies) * len(x.disks) * len(x.gateways); n > 1000 {
		f.Fault("%d combinations: at most 1000 are allowed", n)
	}
}

func (a *app) simulate() *cobra.Command {
	return a.Build(cli.Command{
		Use: "simulate [DATASET] --rate RATE --cache-size SIZE,...", Short: "Predict epoch time, store reads and waiting",
		Long: `Simulates a job and the caches of its gateways against a model of the store, for each combination
of the lists. Prints the time of an epoch, the wait of ranks, and the tier that bytes come from.
Reads only the index of DATASET; --samples, --chunk-samples and --sample-size replace it. The model
ignores CPU time, failures and other users of the store. See docs/simulate.md.`,
		Example: `  millrace simulate s3://bucket/imagenet --world-size 8 --rate 3000/s \
    --cache-size 16GiB,32GiB,64GiB --store-bandwidth 2GB/s
  millrace simulate --samples 1e9 --sample-size 110KB --world-size 64 --rate 50000/s \
    --batch-size 4096 --cache-size 1TiB --disk-cache-size 0,20TiB --store-bandwidth 5GB/s`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x simulateFlags
			x.define(f)
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
	results, err := a.simulations(ctx, "millrace simulate", data, x.settings())
	if err != nil {
		return err
	}
	rep := predictions.New(data, results)
	return a.Print(rep, rep.Print)
}

// simulations checks and simulates the settings.
func (a *app) simulations(ctx context.Context, command string, data *simulate.Data, settings []simulate.Setting) ([]simulate.Result, error) {
	if data.Samples() == 0 {
		return nil, errors.New("the dataset has no samples")
	}
	for i := range settings {
		if err := settings[i].Check(); err != nil {
			return nil, cli.Usage(err, command)
		}
		if least := settings[i].Least(data); settings[i].CacheSize < least {
			return nil, cli.Usage(fmt.Errorf("--cache-size %s is too small: must be at least two chunks and a batch, %s",
				words.Size(settings[i].CacheSize), simulate.Bytes(least)), command)
		}
	}
	if err := settings[0].CheckSharing(data); err != nil {
		return nil, cli.Usage(err, command)
	}
	results := make([]simulate.Result, len(settings))
	bar, done, each := a.NewBar("simulate"), atomic.Int64{}, data.Bytes()*int64(settings[0].Epochs)
	defer bar.End()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range settings {
		g.Go(func() (err error) {
			results[i], err = simulate.Run(ctx, data, s)
			bar.Set(done.Add(each), each*int64(len(settings)))
			return err
		})
	}
	return results, g.Wait()
}

// data returns the model of the dataset, and applies its defaults to the job.
func (x *simulateFlags) data(ctx context.Context) (*simulate.Data, error) {
	def := chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 128, BatchSize: 256}
	var data *simulate.Data
	if x.samples > 0 {
		var err error
		if data, err = simulate.Uniform(x.samples, x.chunk, x.size); err != nil {
			return nil, cli.Usage(err, "millrace simulate")
		}
	} else {
		d, err := x.store.OpenIndex(ctx, x.loc, chunkindex.OpenOptions{})
		if err != nil {
			return nil, err
		}
		defer d.Close()
		def, data = d.Index.Defaults(), orders.Model(d.Index)
	}
	s := &x.base
	var err error
	if s.Order, err = orderOf(&x.order, def); err != nil {
		return nil, cli.Usage(err, "millrace simulate")
	}
	s.BatchSize, s.Sharing = cmp.Or(x.order.BatchSize, def.BatchSize), shuffle.Contiguous
	if x.share == "locality" {
		s.Sharing = shuffle.Locality
	}
	return data, nil
}

// settings returns all combinations of the lists.
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
