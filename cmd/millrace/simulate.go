package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
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
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// simulateFlags are the data, the job, and the lists of settings to try.
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
	picture  string
}

func (x *simulateFlags) define(f *cli.Flags) {
	s := &x.base
	f.Whole(&x.samples, "samples", 0, "without a dataset: how many samples there are, such as 1e9")
	f.Whole(&x.chunk, "chunk-samples", 1000, "without a dataset: samples in a chunk")
	f.Size(&x.size, "sample-size", 100<<10, "without a dataset: size of a sample")
	f.Number(&s.Ranks, "ranks", 1, "ranks of the job")
	f.Rate(&s.Rate, "rate", "samples a second that all ranks together consume when they never wait, such as 3000/s")
	parameterFlags(f, &x.order, address.Order|address.Batching, "tail")
	f.Number(&s.Epochs, "epochs", 2, "epochs: the first finds the caches empty, the last one counts")
	f.Number(&s.ReadAhead, "read-ahead", 2, "batches that a rank asks for beyond the one that it computes on")
	f.Factor(&s.Skew, "skew", 1, "think time of the slowest rank over that of the fastest one, from 1")
	f.Sizes(&x.caches, "cache-size", nil, "`SIZE,...` of a gateway's memory budget")
	f.Words(&x.policies, "cache-policy", []string{simulate.Plan}, "`POLICY,...` by which chunks leave memory, lru, plan or both", simulate.Policies()...)
	f.Sizes(&x.disks, "disk-cache-size", []int64{0}, "`SIZE,...` of a gateway's disk cache, 0 for none")
	f.Bandwidth(&s.DiskRate, "disk-bandwidth", 2e9, "bytes a second of a gateway's disk")
	f.Numbers(&x.gateways, "gateways", []int{1}, "`N,...` gateways, 1 to 1000, that are one cache, and among which the ranks are shared out")
	f.Flag(&s.Alone, "no-cluster", "gateways share nothing: each has a cache of its own")
	f.Choice(&x.share, "share", "contiguous", "how ranks share a batch", "contiguous", "locality")
	f.Bandwidth(&s.LinkRate, "link", 0, "bytes a second of a gateway's link each way, such as 100Gbit/s, for store, other gateways and ranks (default no bound)")
	f.Flag(&s.RanksNear, "ranks-near", "ranks run on their gateway's machine: answers to them stay off its link")
	f.Duration(&s.PeerLatency, "peer-latency", 200*time.Microsecond, "time from a question to another gateway to its answer, beside the bytes")
	f.Number(&s.Fetchers, "fetchers", datapath.DefaultFetchers, "store reads of a gateway side by side")
	f.Size(&s.PartSize, "part-size", datapath.DefaultPartSize, "size of one store read at most")
	f.Bandwidth(&s.ServeRate, "serve-rate", 2e9, "bytes a second from one gateway to its ranks")
	f.Bandwidth(&s.StoreRate, "store-bandwidth", 0, "bytes a second of all store reads together, such as 2GB/s (default no bound)")
	f.Bandwidth(&s.StoreStream, "store-stream", 0, "bytes a second of one store read (default no bound)")
	f.Duration(&s.FirstByte, "store-latency", 20*time.Millisecond, "time to the first byte of a store read")
	f.Text(&x.picture, "svg", "", "write a picture to `FILE`: the time of an epoch against the cache")
}

func (x *simulateFlags) check(f *cli.Flags, args []string) {
	switch {
	case len(args) > 1:
		f.Fault("argument %q is one too many: want one dataset", args[1])
	case len(args) == 1 && x.samples > 0:
		f.Fault("--samples %d: %s says how many there are", x.samples, location.HideSecrets(args[0]))
	case len(args) == 1:
		x.loc = one(f, args[0])
	case x.samples == 0:
		f.Fault("want a dataset, or --samples, --chunk-samples and --sample-size")
	}
	if len(x.caches) == 0 {
		f.Fault("--cache-size: want at least one size")
	}
	if x.base.Rate == 0 {
		f.Fault("--rate: want the samples a second that the job consumes, such as 3000/s")
	}
	if n := len(x.caches) * len(x.policies) * len(x.disks) * len(x.gateways); n > 1000 {
		f.Fault("%d settings: want 1000 at most", n)
	}
}

func (a *app) simulate() *cobra.Command {
	return a.Build(cli.Command{
		Use: "simulate [DATASET] --rate RATE --cache-size SIZE,...", Short: "Predict epoch time, reads and waiting for lists of settings",
		Long: `Runs a job's order, the readers, the fetch queue and the cache policies of a gateway under a
clock of its own against a model of the store, and prints for every combination of the
lists how long an epoch takes, how long ranks wait, and which tier the bytes come from. A
dataset's index is all that is read of it; --samples, --chunk-samples and --sample-size
stand for one that does not exist yet. Several gateways are one cache: each chunk is read by
its owner, and the others ask that one for what they need of it.

What it leaves out: processor time, failures, other users of the store. See docs/simulate.md.`,
		Example: `  millrace simulate s3://bucket/imagenet --ranks 8 --rate 3000/s --cache-size 16GiB,32GiB,64GiB \
    --store-bandwidth 2GB/s
  millrace simulate --samples 1e9 --sample-size 110KB --ranks 64 --rate 50000/s \
    --batch-size 4096 --cache-size 1TiB --disk-cache-size 0,20TiB --store-bandwidth 5GB/s
  millrace simulate s3://bucket/imagenet --rate 3000/s --cache-size 8GiB,16GiB \
    --cache-policy lru,plan --gateways 1,2 --svg epochs.svg
  millrace simulate --samples 1e9 --sample-size 64KiB --gateways 100 --ranks 10000 \
    --batch-size 320000 --window 16000 --rate 5e6/s --cache-size 1TiB --link 100Gbit/s \
    --store-bandwidth 100GB/s
  millrace simulate s3://bucket/imagenet --gateways 1,2,4,8 --ranks 64 --rate 20000/s \
    --cache-size 32GiB --link 25Gbit/s --share locality`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x simulateFlags
			x.define(f)
			f.Output(a.App)
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
			return cli.Usage(err, "millrace simulate")
		}
		if least := settings[i].Least(data); settings[i].CacheSize < least {
			return cli.Usage(fmt.Errorf("--cache-size %s is too small: two chunks and a batch, %s, are the least",
				words.Size(settings[i].CacheSize), simulate.Bytes(least)), "millrace simulate")
		}
	}
	if err := settings[0].CheckSharing(data); err != nil {
		return cli.Usage(err, "millrace simulate")
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
		title := fmt.Sprintf("Time of an epoch, %s order, %s at %.6g samples/s", x.base.Order.Shuffle, words.Count(x.base.Ranks, "rank", "ranks"), x.base.Rate)
		if err := os.WriteFile(x.picture, []byte(simulate.Picture(title, results)), 0o644); err != nil {
			return fmt.Errorf("write the picture: %w", err)
		}
	}
	rep := predictions.New(data, results)
	return a.Print(rep, rep.Print)
}

// data is what is known of the dataset, and makes its defaults those of the job.
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
		if data.Samples() == 0 {
			return nil, errors.New("the dataset has no samples")
		}
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
