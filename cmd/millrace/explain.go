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
	"github.com/millrace-data/millrace/gateway/address"
)

func (a *app) explain() *cobra.Command {
	return a.Build(cli.Command{
		Use: "explain GATEWAY[/NAME]", Short: "Explain an epoch, or where the samples of a batch come from",
		Long: `Describes an epoch of a gateway: batches, chunks to read, quality of the shuffle. With --batch,
lists each sample of that batch with its shard and range. Reads no data.`,
		Example: "  millrace explain http://gw:8080/photos\n  millrace explain http://gw:8080 --epoch 3 --batch 17",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var p planFlags
			var batch *uint64
			f.Optional(&batch, "batch", "batch number, from 0")
			p.define(f, ^address.Showing)
			check := func(args []string) {
				if _, _, ok := location.Served(args[0], ""); !ok {
					f.Fault("%s is a dataset, not a gateway: serve it with 'millrace serve', or compare its orders with 'millrace plan'", location.HideSecrets(args[0]))
					return
				}
				served(f, args, &p.dataset)
				gateways(f, args)
				p.check(f)
			}
			return check, func(ctx context.Context, args []string) error {
				return a.ask(ctx, args[0], p.dataset, func(c *client.Client) error { return a.runExplain(ctx, c, args[0], &p, batch) })
			}
		},
	})
}

// runExplain prints the gateway's description of the plan. With --json it prints the description
// unchanged.
func (a *app) runExplain(ctx context.Context, c *client.Client, gateway string, p *planFlags, batch *uint64) error {
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
