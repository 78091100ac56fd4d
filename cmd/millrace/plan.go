package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// planFlags are the plan parameters of the commands that ask a gateway.
type planFlags struct {
	opt     client.Options
	dataset string
}

// define defines the epoch and the parameters of some groups, except those of some names.
func (p *planFlags) define(f *cli.Flags, groups address.Group, without ...string) {
	f.Text(&p.dataset, "dataset", "", "`NAME` of the dataset (default the one in the address, or the gateway's default one)")
	f.Count(&p.opt.Epoch, "epoch", 0, "number of the epoch, from 0")
	parameterFlags(f, &p.opt, groups, without...)
}

// parameterFlags defines a flag for each parameter of some groups, except those of some names.
func parameterFlags(f *cli.Flags, opt *client.Options, groups address.Group, without ...string) {
	for _, r := range address.Parameters() {
		if r.Group&groups == 0 || slices.Contains(without, r.Name) {
			continue
		}
		flag := flagOf(r.Name)
		switch field := opt.Parameter(r.Name).(type) {
		case **uint64:
			f.Optional(field, flag, r.Help)
		case *uint64:
			if r.Least > 0 {
				f.Positive(field, flag, r.Help)
			} else {
				f.Count(field, flag, 0, r.Help)
			}
		case *string:
			if r.Words != nil {
				f.Choice(field, flag, "", r.Help, r.Words...)
			} else {
				f.Text(field, flag, "", r.Help)
			}
		}
	}
}

// flagOf is the flag of a parameter.
func flagOf(parameter string) string { return strings.ReplaceAll(parameter, "_", "-") }

// orderOf returns the order of a dataset with some defaults that the flags choose.
func orderOf(opt *client.Options, def chunkindex.Defaults) (shuffle.Params, error) {
	q := address.ParseQuery(opt.Query().Encode(), address.BatchNames()...)
	params := address.DecodeOrder(q, def)
	return params, q.Err()
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
			c.define(f)
			p.define(f, ^address.Showing, "world_size", "homes")
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
