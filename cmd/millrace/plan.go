package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/cmd/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// planFlags are the plan parameters of the commands that ask a gateway.
type planFlags struct {
	opt     client.Options
	dataset string
}

func (p *planFlags) define(f *cli.Flags) {
	p.defineEpoch(f)
	p.defineRank(f)
	f.Positive(&p.opt.WorldSize, "world-size", "ranks that share each batch (default 1)")
	p.defineShare(f)
	f.Positive(&p.opt.Homes, "homes", "homes of --share locality, such as gateways (default the world size)")
	p.defineOrder(f)
}

func (p *planFlags) defineRank(f *cli.Flags) {
	f.Count(&p.opt.Rank, "rank", 0, "number of the rank whose share is read, from 0")
}

// defineShare defines the parameters that say how ranks share a batch.
func (p *planFlags) defineShare(f *cli.Flags) {
	f.Choice(&p.opt.Balance, "balance", "", "what every rank gets an equal share of (default samples)", "samples", "bytes")
	f.Choice(&p.opt.Share, "share", "", "how ranks share a batch (default contiguous)", "contiguous", "locality")
}

func (p *planFlags) defineEpoch(f *cli.Flags) {
	f.Text(&p.dataset, "dataset", "", "`NAME` of the dataset (default the one in the address, or the gateway's default one)")
	f.Count(&p.opt.Epoch, "epoch", 0, "number of the epoch, from 0")
}

// defineOrder defines the parameters that do not depend on who reads.
func (p *planFlags) defineOrder(f *cli.Flags) {
	f.Positive(&p.opt.BatchSize, "batch-size", "samples of a global batch (default the dataset's)")
	f.Optional(&p.opt.Seed, "seed", "seed of the order (default the dataset's)")
	f.Choice(&p.opt.Shuffle, "shuffle", "", "how the order is mixed (default the dataset's)", "none", "window", "slot", "full")
	f.Positive(&p.opt.Window, "window", "chunks (window) or lanes (slot) in memory together (default the dataset's)")
	f.Count(&p.opt.Strata, "strata", 0, "strata that a window's chunks come from (default none)")
	f.Choice(&p.opt.Tail, "tail", "", "what becomes of a last batch that is not full (default the dataset's)", "short", "drop", "pad")
	f.Text(&p.opt.Importance, "importance", "", "`SNAPSHOT` of weights to draw samples by (default none: each comes once)")
	f.Text(&p.opt.Subset, "subset", "", "`SUBSET` to deliver: NAME, DIGEST:NAME, or written out as train=9,val=1:train (default the whole dataset)")
	f.Text(&p.opt.Quarantine, "quarantine", "", "`DIGEST` of bad samples that others replace (default none)")
	f.Text(&p.opt.Generation, "generation", "", "`HASH` of the index's generation to insist on")
}

func (p *planFlags) check(f *cli.Flags) {
	if n := max(p.opt.WorldSize, 1); p.opt.Rank >= n {
		f.Fault("--rank %d: want less than --world-size, %d", p.opt.Rank, n)
	}
	if p.opt.Share == string(shuffle.Locality) && p.opt.Balance == "bytes" {
		f.Fault("--share locality and --balance bytes exclude each other")
	}
	switch {
	case p.opt.Homes == 0:
	case p.opt.Share != string(shuffle.Locality):
		f.Fault("--homes %d: has no meaning without --share locality", p.opt.Homes)
	case p.opt.Homes > max(p.opt.WorldSize, 1):
		f.Fault("--homes %d: want at most --world-size, %d", p.opt.Homes, max(p.opt.WorldSize, 1))
	}
}

func (a *app) plan() *cobra.Command {
	return a.Build(cli.Command{
		Use: "plan GATEWAY[/NAME]|DATASET", Short: "Explain a batch, or compare orders, without reading data",
		Long: `With a gateway's address, prints the plan of an epoch, and with --batch where each sample
of that batch comes from; with --share locality also what share of the samples is read by
a rank other than the one at home. With a dataset (s3://bucket/prefix, file:///dir or a directory)
prints several orders side by side: the memory each wants, how well it mixes and how many
requests of the store an epoch makes, with --cache-size also a later epoch, with
--request-price what they cost; --window adds one, --shuffle shows those of one kind. Each chunk,
or part of one, counts as one request; a gateway may fetch neighbours together, or a chunk in
parts. With --world-size and --homes, lists, it also prints what sharing by locality moves and
how mixed a rank's own share is, and with --gateways what other numbers of gateways read from
the store once more when they take over a job, its homes as they are. Neither reads any data.

The variance compares with uniform sampling (1.0) on data sorted by class: 4.0 means that a
class's share of a batch varies four times as much. Every chunk is a class, or the data has
10 or 100 classes. Above 2 a warning says what helps. Where shuffle slot has fewer than 64 rows,
a line states how many samples never stand in the last one, and what --tail drop leaves out.`,
		Example: `  millrace plan http://gw:8080 --epoch 3 --batch 17
  millrace plan http://gw:8080 --shuffle window --window 64 --strata 16 --share locality \
    --world-size 8
  millrace plan s3://bucket/imagenet --batch-size 1024 --cache-size 64GiB --request-price 0.40
  millrace plan s3://bucket/imagenet --batch-size 2048 --world-size 8,96 --homes 1,4,8
  millrace plan s3://bucket/imagenet --world-size 32 --homes 4 --gateways 3,5`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var p planFlags
			var c compareFlags
			var s location.Stores
			var l location.Location
			var batch *uint64
			var remote bool // a gateway answers
			f.Optional(&batch, "batch", "number of a batch to explain")
			p.defineEpoch(f)
			p.defineRank(f)
			c.define(f)
			p.defineShare(f)
			p.defineOrder(f)
			f.Output(a.App)
			check := func(args []string) {
				if _, _, remote = location.Served(args[0], ""); remote {
					served(f, args, &p.dataset)
					gateways(f, args)
					c.checkGateway(f, &p)
					p.check(f)
					return
				}
				l = one(f, args[0])
				c.checkDataset(f, location.HideSecrets(args[0]))
				if batch != nil {
					f.Fault("--batch requires a gateway: run 'millrace serve %[1]s', then 'millrace plan http://127.0.0.1:8080 --batch %[2]d'", words.Quoted(location.HideSecrets(args[0])), *batch)
				}
			}
			return check, func(ctx context.Context, args []string) error {
				if remote {
					return a.planRemote(ctx, args[0], &p, batch)
				}
				return a.compare(ctx, &s, l, &p, &c)
			}
		},
	})
}

// planRemote shows what the gateway says; the gateway's own JSON is the answer.
func (a *app) planRemote(ctx context.Context, gateway string, p *planFlags, batch *uint64) error {
	c, err := a.reached(ctx, gateway, p.dataset)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	e, err := orders.Explain(ctx, c, p.opt, batch)
	if err != nil {
		return err
	}
	for _, line := range []string{orders.UnevenPlan(e.Plan), orders.LastRowOfPlan(e.Plan)} {
		if line != "" {
			a.Say("%s", line)
		}
	}
	show := func(w io.Writer) { e.Print(w, strings.TrimSuffix(location.HideSecrets(gateway), "/")) }
	if batch == nil {
		return a.Print(e.Plan, show)
	}
	return a.Print(e, show)
}
