package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// planQuestion holds the flags of plan, which compares a dataset's orders.
type planQuestion struct {
	orders.Question
	opt    client.Options
	prices []orders.Price
	job    simulateFlags // the simulated job, for prices
	batch  *uint64       // --batch, which only explain has

	balance string // costs of samples, for the work of ranks
	bucket  uint64
}

func (q *planQuestion) define(f *cli.Flags) {
	parameterFlags(f, &q.opt, address.Order|address.Batching, "seed", "tail", "bucket")
	f.Numbers(&q.WorldSizes, "world-size", nil, "`N,...` world sizes: for each, compare shares of ranks with and without locality")
	f.Text(&q.balance, "balance", "", "`bytes|cost:NAME` compare the work of ranks by these costs: time, padding, mixing")
	f.Between(&q.bucket, "bucket", 1, shuffle.MaxBlock, 0, "with --balance, also compare blocks of this many batches of similar cost")
	f.Numbers(&q.Homes, "homes", nil, "`N,...` gateway counts to compare with locality (default the world size)")
	f.Numbers(&q.Gateways, "gateways", nil, "`N,...` gateway counts: chunks read again after a change, or costs with --prices")
	f.Sizes(&q.Caches, "cache-size", nil, "`SIZE,...` gateway cache sizes: also count store requests of a later epoch")
	cli.List(f, &q.prices, "prices", nil, orders.PriceKind(), ",", func(s string) []string { return strings.Split(s, ",") },
		"`RESOURCE=PRICE,...` print costs: requests, egress, gateway, accelerator")
	f.Optional(&q.batch, "batch", "")
	f.Set.Lookup("batch").Hidden = true
	cli.New(nil, nil, nil).Flags(pflag.NewFlagSet("simulate", pflag.ContinueOnError), q.job.define) // sets the defaults
	q.job.model(f)
}

func (q *planQuestion) check(f *cli.Flags, dataset string) {
	quoted := words.Quoted(location.HideSecrets(dataset))
	if _, _, ok := location.Served(dataset, ""); ok {
		f.Fault("%s is a gateway, and plan compares the orders of a dataset: run 'millrace explain %[1]s'", quoted)
	}
	if q.batch != nil {
		f.Fault("--batch requires a gateway: run 'millrace serve %[1]s', then 'millrace explain http://127.0.0.1:8080 --batch %[2]d'", quoted, *q.batch)
	}
	q.checkBalance(f)
	if len(q.prices) > 0 || !f.Missing("prices") {
		q.checkPrices(f)
		return
	}
	for _, name := range []string{"homes", "gateways"} {
		if f.Set.Changed(name) && len(q.WorldSizes) == 0 {
			f.Fault("--%s requires --world-size", name)
		}
	}
	for _, name := range []string{"rate", "disk-cache-size", "link", "store-bandwidth"} {
		if f.Set.Changed(name) {
			f.Fault("--%s requires --prices", name)
		}
	}
	if len(q.WorldSizes) > 0 && len(q.Gateways) > 0 && slices.Max(q.Gateways) > slices.Max(q.WorldSizes) {
		f.Fault("--gateways %d: must be at most --world-size, %d: a gateway without a rank reads nothing", slices.Max(q.Gateways), slices.Max(q.WorldSizes))
	}
}

func (q *planQuestion) checkBalance(f *cli.Flags) {
	name, isCost := strings.CutPrefix(q.balance, "cost:")
	switch {
	case q.balance == "":
		if f.Set.Changed("bucket") {
			f.Fault("--bucket requires --balance")
		}
	case q.balance != "bytes" && (!isCost || name == ""):
		f.Fault("--balance %q: must be bytes or cost:NAME", q.balance)
	case len(q.WorldSizes) == 0 && f.Missing("world-size"):
		f.Fault("--balance requires --world-size")
	case len(q.Homes) > 0 || len(q.Gateways) > 0 || len(q.prices) > 0:
		f.Fault("--balance accepts no --homes, --gateways and --prices")
	}
}

func (q *planQuestion) checkPrices(f *cli.Flags) {
	for i, p := range q.prices {
		if slices.ContainsFunc(q.prices[:i], func(o orders.Price) bool { return o.Resource == p.Resource }) {
			f.Fault("--prices: %s has two prices: give one", p.Resource)
		}
	}
	if q.job.base.Rate == 0 && f.Missing("rate") {
		f.Fault("--prices requires --rate: samples per second that the job consumes, such as 3000/s")
	}
	if len(q.Caches) == 0 && f.Missing("cache-size") {
		f.Fault("--prices requires --cache-size SIZE,...")
	}
	if len(q.WorldSizes) > 1 || len(q.Homes) > 0 {
		f.Fault("--prices accepts one --world-size, and no --homes")
	}
	x := &q.job
	if x.caches, x.base.Sharing = q.Caches, shuffle.Contiguous; len(q.WorldSizes) > 0 {
		x.base.Ranks = q.WorldSizes[0]
	}
	if len(q.Gateways) > 0 {
		x.gateways = q.Gateways
	}
	q.WorldSizes = nil // prices replace the shares of ranks
	x.limit(f)
}

func (a *app) plan() *cobra.Command {
	return a.Build(cli.Command{
		Use: "plan DATASET", Short: "Compare shuffle orders: memory, quality, store requests",
		Long: `Compares orders of a dataset: the memory that each requires, the quality of its shuffle, and the
store requests per epoch; with --cache-size also those of a later epoch. Reads only the index.

With --balance, it compares the work of ranks, by bytes or by a cost table of 'millrace cost': the
time of an epoch whose steps take as long as the rank with the most cost, relative to equal ranks;
padding to the longest sample of a share; and the variance of a batch's mean cost, relative to
random batches.
--bucket adds batches of similar cost. At most 2^20 samples, in blocks spread over epoch 0, are
examined.

With --prices, it simulates two epochs with the defaults of 'millrace simulate'. It prints the cost
of the first, with empty caches, and of a later one, by order, cache size and number of gateways,
the cheapest later epoch first.
Prices, in any currency, are of 10^6 store reads (requests), of 10^9 bytes from the store (egress),
of an hour of a gateway, and of an hour that a rank waits for data (accelerator).

The variance compares a batch with uniform sampling (1.0), for data sorted by class with one class
per chunk, 10 or 100 classes: at 4.0 a class's share of a batch varies four times as much. Above 2,
a warning recommends another order.`,
		Example: `  millrace plan s3://bucket/imagenet --batch-size 1024 --cache-size 64GiB
  millrace plan s3://bucket/imagenet --batch-size 2048 --world-size 8,96 --homes 1,4,8
  millrace plan s3://bucket/texts --balance cost:tokens --bucket 32 --world-size 8,64
  millrace plan s3://bucket/imagenet --cache-size 16GiB,64GiB --gateways 1,3 --world-size 32 \
    --rate 16000/s --prices requests=0.4,egress=0.09,gateway=1.2,accelerator=2.5`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var q planQuestion
			var l location.Location
			q.define(f)
			check := func(args []string) {
				if q.check(f, args[0]); f.Err() == nil {
					l = one(f, args[0])
				}
			}
			return check, onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.runPlan(ctx, d, &q) })
		},
	})
}

func (a *app) runPlan(ctx context.Context, d location.Dataset, p *planQuestion) (err error) {
	q, opt, def := p.Question, p.opt, d.Index.Defaults()
	q.BatchSize, q.Shuffle, q.Window, q.PartSize = opt.BatchSize, opt.Shuffle, opt.Window, p.job.base.PartSize
	if opt.Shuffle == "" && !shuffle.UsesWindow(def.Shuffle) {
		opt.Window = 0 // the window applies to additional rows only
	}
	if q.Order, err = orderOf(&opt, def); err != nil {
		return cli.Usage(err, "millrace plan")
	}
	ranks := q.WorldSizes
	if p.balance != "" {
		q.WorldSizes = nil // shares by cost replace those by locality
	}
	out, err := orders.Compare(d.Index, q)
	if err != nil {
		return err
	}
	if p.balance != "" {
		w := orders.WorkQuestion{Order: q.Order, BatchSize: out.BatchSize, Bucket: p.bucket, WorldSizes: ranks, Balance: p.balance}
		if out.Work, err = examine(ctx, d, w); err != nil {
			return fmt.Errorf("%s: %w", d.Loc, err)
		}
	}
	for _, line := range out.Warnings() {
		a.Say("%s", line)
	}
	if len(p.prices) > 0 {
		if out.Costs, err = a.costs(ctx, d, p, out.Orders, q.Order.Window); err != nil {
			return err
		}
	}
	return a.Print(&out, func(w io.Writer) { out.Print(w, d.Loc.String()) })
}

// examine examines the work of ranks by stored lengths or by a cost table.
func examine(ctx context.Context, d location.Dataset, q orders.WorkQuestion) (*orders.Work, error) {
	q.Costs = func(ctx context.Context, samples []uint64) ([]uint32, error) {
		return plans.Lengths(ctx, d.Index, samples)
	}
	if name, ok := strings.CutPrefix(q.Balance, "cost:"); ok {
		st, err := d.Selections()
		if err != nil {
			return nil, err
		}
		digest := name
		if !address.IsDigest(name) {
			digest, err = st.CostsNamed(ctx, d.Index.Generation(), name)
		}
		if errors.Is(err, selection.ErrNotFound) {
			return nil, fmt.Errorf("the generation has no cost table %s: create it with 'millrace cost'", name)
		} else if err != nil {
			return nil, err
		}
		costs, err := st.OpenCosts(ctx, digest, d.Index.Generation(), d.Index.First())
		if err != nil {
			return nil, err
		}
		defer costs.Close()
		q.Costs = func(ctx context.Context, samples []uint64) ([]uint32, error) { return costs.Append(ctx, nil, samples) }
	}
	return orders.NewWork(ctx, d.Index, q)
}

// costs returns the costs of the orders that have no window, or the given one.
func (a *app) costs(ctx context.Context, d location.Dataset, p *planQuestion, rows []orders.Row, window uint64) (*orders.Costs, error) {
	def := d.Index.Defaults()
	window = cmp.Or(window, def.Window)
	var settings []simulate.Setting
	for _, r := range rows {
		if r.Window == 0 || r.Window == window {
			p.job.base.Order, p.job.base.BatchSize = r.Params, cmp.Or(p.opt.BatchSize, def.BatchSize)
			settings = append(settings, p.job.settings()...)
		}
	}
	data := orders.Model(d.Index)
	results, err := a.simulations(ctx, "millrace plan", data, settings)
	if err != nil {
		return nil, err
	}
	return orders.NewCosts(data, p.prices, results), nil
}
