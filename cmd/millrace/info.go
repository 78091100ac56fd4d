package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (a *app) info() *cobra.Command {
	return a.Build(cli.Command{
		Use: "info GATEWAY[/NAME]|DATASET", Short: "Describe a dataset: generation, format, samples, defaults",
		Long: `Describes a dataset of a gateway or a store: generation, format, samples, defaults. For a directory,
it also counts files that changed since the index was made, if that takes at most 2 s.`,
		Example: "  millrace info s3://bucket/imagenet\n  millrace info http://gw:8080/imagenet --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var l location.Location
			var name string
			f.Text(&name, "dataset", "", "`NAME` dataset (default the one in the address, or the gateway's default)")
			check := func(args []string) {
				if address, dataset, ok := location.Served(args[0], name); ok {
					args[0], name = address, dataset
					gateways(f, args)
					return
				}
				l = one(f, args[0])
				if name != "" {
					f.Fault("--dataset requires a gateway, and %s is a dataset", location.HideSecrets(args[0]))
				}
			}
			return check, func(ctx context.Context, args []string) error {
				if l.Name != "" {
					return onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.printInfo(inventory.Indexed(ctx, d)) })(ctx, args)
				}
				return a.ask(ctx, args[0], name, func(c *client.Client) error {
					d, err := c.Describe(ctx)
					if err != nil {
						return err
					}
					return a.printInfo(inventory.Description{Dataset: d})
				})
			}
		},
	})
}

func (a *app) printInfo(d inventory.Description) error {
	return a.Print(d, func(w io.Writer) { inventory.PrintDataset(w, d) })
}

func (a *app) datasets() *cobra.Command {
	return a.Build(cli.Command{
		Use: "datasets GATEWAY", Short: "List the datasets of a gateway",
		Long:    `Lists the datasets of a gateway by their addresses for other commands, the default first.`,
		Example: "  millrace datasets http://gw:8080\n  millrace datasets http://gw:8080 --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			check := func(args []string) {
				if gateway, name, _ := location.Served(args[0], ""); name != "" {
					f.Fault("%s names a dataset: use %s, or run 'millrace info'", location.HideSecrets(args[0]), location.HideSecrets(gateway))
				}
				gateways(f, args)
			}
			return check, func(ctx context.Context, args []string) error {
				return a.ask(ctx, args[0], "", func(c *client.Client) error {
					all, err := inventory.ServedBy(ctx, c, args[0])
					if err != nil {
						return err
					}
					return a.Print(map[string]any{"datasets": all}, func(w io.Writer) { inventory.PrintDatasets(w, all) })
				})
			}
		},
	})
}

// list returns the command "kind list", which lists the objects of one kind of a dataset.
func (a *app) list(kind, short, long string, find func(context.Context, objstore.Store, string) (inventory.List, error)) *cobra.Command {
	return a.Build(cli.Command{
		Use: "list DATASET", Short: short, Long: long,
		Example: "  millrace " + kind + " list s3://bucket/imagenet\n  millrace " + kind + " list ./shards --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			check := func(args []string) {
				if location.IsGateway(args[0]) {
					f.Fault("%s is a gateway: the store of the dataset holds its %s: use its address, such as s3://bucket/imagenet", location.HideSecrets(args[0]), strings.TrimSuffix(kind, "s")+"s")
					return
				}
				l = one(f, args[0]).OfIndex()
			}
			return check, func(ctx context.Context, _ []string) error {
				return s.With(ctx, l, false, func(ctx context.Context, st objstore.Store) error {
					all, err := find(ctx, st, l.Prefix)
					if err != nil {
						return location.Explain(ctx, kind+" list", l, st, err)
					}
					return a.Print(all, all.Print)
				})
			}
		},
	})
}

func (a *app) reports() *cobra.Command {
	return cli.Group("reports", "List loss reports and weight snapshots", "  millrace reports list s3://bucket/imagenet", a.list("reports", "List the reports and snapshots of a dataset",
		`Lists the epochs with loss reports (plan, snapshot, bytes, age) and the snapshots, which URLs name
as importance=SNAPSHOT. 'millrace gc' deletes reports.`, inventory.ListLosses))
}
