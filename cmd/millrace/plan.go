package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// planQuestion holds the flags of plan, which compares a dataset's orders.
type planQuestion struct {
	orders.Question
	opt   client.Options
	batch *uint64 // --batch, which only explain has
}

func (q *planQuestion) define(f *cli.Flags) {
	parameterFlags(f, &q.opt, address.Order|address.Batching, "seed", "tail")
	f.Numbers(&q.WorldSizes, "world-size", nil, "`N,...` world sizes: for each, compare shares of ranks with and without locality")
	f.Numbers(&q.Homes, "homes", nil, "`N,...` gateway counts to compare with locality (default the world size)")
	f.Numbers(&q.Gateways, "gateways", nil, "`N,...` gateway counts after a change during a job: count the chunks read again")
	f.Size(&q.Cache, "cache-size", 0, "size of a cache: also count the store requests of a later epoch with it")
	f.Real(&q.Price, "request-price", "PRICE", "", 0, 1e9, 0, "price per million store requests, for the cost of an epoch")
	f.Optional(&q.batch, "batch", "")
	f.Set.Lookup("batch").Hidden = true
}

func (q *planQuestion) check(f *cli.Flags, dataset string) {
	quoted := words.Quoted(location.HideSecrets(dataset))
	if _, _, ok := location.Served(dataset, ""); ok {
		f.Fault("%s is a gateway, and plan compares the orders of a dataset: run 'millrace explain %[1]s'", quoted)
	}
	if q.batch != nil {
		f.Fault("--batch requires a gateway: run 'millrace serve %[1]s', then 'millrace explain http://127.0.0.1:8080 --batch %[2]d'", quoted, *q.batch)
	}
	for _, name := range []string{"homes", "gateways"} {
		if f.Set.Changed(name) && len(q.WorldSizes) == 0 {
			f.Fault("--%s requires --world-size", name)
		}
	}
	if len(q.WorldSizes) > 0 && len(q.Gateways) > 0 && slices.Max(q.Gateways) > slices.Max(q.WorldSizes) {
		f.Fault("--gateways %d: must be at most --world-size, %d: a gateway without a rank reads nothing", slices.Max(q.Gateways), slices.Max(q.WorldSizes))
	}
}

func (a *app) plan() *cobra.Command {
	return a.Build(cli.Command{
		Use: "plan DATASET", Short: "Compare shuffle orders: memory, quality, store requests",
		Long: `Compares orders of a dataset: the memory that each requires, the quality of its shuffle, and the
store requests per epoch; with --cache-size also those of a later epoch. Reads only the index.

The variance compares a batch with uniform sampling (1.0), for data sorted by class with one class
per chunk, 10 or 100 classes: at 4.0 a class's share of a batch varies four times as much. Above 2,
a warning recommends another order.`,
		Example: `  millrace plan s3://bucket/imagenet --batch-size 1024 --cache-size 64GiB --request-price 0.40
  millrace plan s3://bucket/imagenet --batch-size 2048 --world-size 8,96 --homes 1,4,8`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var q planQuestion
			var l location.Location
			q.define(f)
			f.Output(a.App)
			check := func(args []string) {
				if q.check(f, args[0]); f.Err() == nil {
					l = one(f, args[0])
				}
			}
			return check, onDataset(&l, func(_ context.Context, d location.Dataset) error { return a.runPlan(d, &q) })
		},
	})
}

func (a *app) runPlan(d location.Dataset, p *planQuestion) (err error) {
	q, opt, def := p.Question, p.opt, d.Index.Defaults()
	q.BatchSize, q.Shuffle, q.Window, q.PartSize = opt.BatchSize, opt.Shuffle, opt.Window, datapath.DefaultPartSize
	if opt.Shuffle == "" && !shuffle.UsesWindow(def.Shuffle) {
		opt.Window = 0 // the window applies to additional rows only
	}
	if q.Order, err = orderOf(&opt, def); err != nil {
		return cli.Usage(err, "millrace plan")
	}
	out, err := orders.Compare(d.Index, q)
	if err != nil {
		return err
	}
	for _, line := range out.Warnings() {
		a.Say("%s", line)
	}
	return a.Print(&out, func(w io.Writer) { out.Print(w, d.Loc.String()) })
}
